"""Storage of tables: a small port over local disks and S3-compatible object stores.

Import `open_store`, the port `ObjectStore` and the path functions; this is the only package that imports fsspec or s3fs.
Stores that fail or count on purpose live in `lakeidx.testing`; paths of a table's files in `lakeidx.format.paths`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeidx import arguments
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.storage.base import FileInfo, ObjectStore, OutputFile, join, name_of, parent_of
from lakeidx.storage.local import LocalStore

__all__ = [
    "FileInfo",
    "LocalStore",
    "ObjectStore",
    "OutputFile",
    "join",
    "name_of",
    "open_store",
    "parent_of",
]

_S3_SCHEMES = ("s3", "s3a", "s3n")


def open_store(uri: str, storage_options: Mapping[str, Any] | None = None) -> ObjectStore:
    """Return the store a path or URI is in.

    uri              a local path, ``file:`` URI, or ``s3://bucket/...`` (also s3a, s3n); any path of the store will do
    storage_options  for S3 see `lakeidx.storage.s3.store.S3Store`; none for local paths
    errors           InvalidInputError for an option that is not known, or options that are no mapping; UnsupportedError for
                     another scheme
    """
    if not isinstance(uri, str) or not uri:
        raise InvalidInputError(f"expected a path or URI, not {uri!r}")
    options = arguments.storage_options(storage_options, path=uri)
    scheme, colon, rest = uri.partition(":")
    if colon and rest.startswith("//") and scheme.lower() in _S3_SCHEMES:
        # Only tables on S3 pay for its client's errors and retries.
        from lakeidx.storage.s3.store import S3Store

        return S3Store(uri, options)
    if colon and rest.startswith("//") and scheme.lower() != "file":
        raise UnsupportedError(f"no store for {scheme}:// URIs; use a local path, file:// or s3://", path=uri)
    return LocalStore(uri)
