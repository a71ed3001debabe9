"""Storage of tables: a small port over local disks and the object stores of clouds.

Import `open_store`, the port `ObjectStore` and the path functions; this is the only package that imports obstore or fsspec.
Stores that fail or count on purpose live in `lakeidx.testing`; paths of a table's files in `lakeidx.format.paths`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.options import arguments
from lakeidx.storage.base import CLOUD_OF, FileInfo, ObjectStore, kind_of_store
from lakeidx.storage.files import OutputFile, join, name_of, parent_of
from lakeidx.storage.local import LocalStore

__all__ = [
    "FileInfo",
    "LocalStore",
    "ObjectStore",
    "OutputFile",
    "file_system",
    "join",
    "kind_of_store",
    "name_of",
    "open_store",
    "parent_of",
]


def open_store(uri: str, storage_options: Mapping[str, Any] | None = None) -> ObjectStore:
    """Return the store a path or URI is in.

    uri              a local path, ``file:`` URI, ``s3://bucket/...`` (also s3a, s3n), ``gs://bucket/...``, ``az://container/...``
                     or ``abfss://container@account.dfs.core.windows.net/...``; any path of the store will do
    storage_options  see `lakeidx.storage.remote.options`; none for local paths
    errors           InvalidInputError for an option that is not known, or options that are no mapping; UnsupportedError for
                     another scheme
    """
    if not isinstance(uri, str) or not uri:
        raise InvalidInputError(f"expected a path or URI, not {uri!r}")
    options = arguments.storage_options(storage_options, path=uri)
    kind = kind_of_store(uri)
    if not kind:
        return LocalStore(uri)
    if kind not in CLOUD_OF:
        known = ", ".join(f"{name}://" for name in CLOUD_OF)
        raise UnsupportedError(f"no store for {kind}:// URIs; use a local path, file:// or {known}", path=uri)
    # Only tables of an object store pay for its client, errors and retries.
    from lakeidx.storage.remote.store import RemoteStore

    return RemoteStore(uri, options)


def file_system(store: ObjectStore) -> Any:
    """Return an fsspec file system that reaches the files of a store by their paths, with its options: for other libraries.

    errors   UnsupportedError for a store in memory; else those of `open_store`
    """
    if isinstance(store, LocalStore):
        import fsspec

        return fsspec.filesystem("file")
    from lakeidx.storage.remote.store import RemoteStore

    if not isinstance(store, RemoteStore):
        raise UnsupportedError("fsspec has no file system for this store", path=store.uri)
    return store.file_system()
