"""Which places outside its directory a table's manifests may name: those of ``data-file.external-paths``, and no others.

A manifest entry may hold a whole path (``_EXTERNAL_PATH``). It is read, and deleted at expiry, so it must not name any file there
is: it is below the table's directory, or below a path that the option names in one of the table's schemas (files stay where
they are when the option changes).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from lakeidx.errors import CorruptFileError
from lakeidx.format.schema.schema_file import TableSchema

_SCHEME = re.compile(r"^(?P<scheme>[a-z][a-z0-9+.-]*):/*", re.IGNORECASE)
_SAME_STORE = {"s3a": "s3", "s3n": "s3"}


def check_external_paths(
    external: Iterable[str | None], root: str, schemas: Callable[[], Iterable[TableSchema]], path: str
) -> None:
    """Refuse external paths that the table's options do not allow.

    external   as manifest entries have them; None for files of the table's own directories
    schemas    gives all schemas of the table; called only when there is an external path
    path       the manifest, for the message
    errors     CorruptFileError
    """
    named = {e for e in external if e is not None}
    if not named:
        return
    allowed = [root, *(place for schema in schemas() for place in _places(schema))]
    prefixes = tuple(f"{_canonical(place).rstrip('/')}/" for place in allowed)
    for found in sorted(named):
        if ".." in found.split("/") or not _canonical(found).startswith(prefixes):
            raise CorruptFileError(
                f"an entry names the file {found!r}, which is neither in the table nor below a path of option "
                "'data-file.external-paths'",
                path=path,
            )


def _places(schema: TableSchema) -> list[str]:
    options = schema.table_options
    listed = [*(options.data_file_external_paths or "").split(","), options.global_index_external_path or ""]
    return [place.strip() for place in listed if place.strip()]


def _canonical(uri: str) -> str:
    """Normalize a path or URI: ``file:///x`` as ``/x``, ``s3a://b/x`` as ``s3://b/x``."""
    match = _SCHEME.match(uri)
    if match is None:
        return uri
    scheme, rest = match["scheme"].lower(), uri[match.end() :]
    return f"/{rest}" if scheme == "file" else f"{_SAME_STORE.get(scheme, scheme)}://{rest}"
