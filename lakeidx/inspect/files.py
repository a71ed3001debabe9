"""Recognise any file of a table and show its content as JSON: the engine of ``lakeidx inspect FILE``.

Files are recognised by content first and by name where the content has no mark of its own (HASH index, hints, lookup files).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lakeidx.codec.containers.avro import MAGIC
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.file_index import container
from lakeidx.format.file_names import NameKind, parse_file_name
from lakeidx.format.lookup.hash_store import CONTEXT_SUFFIX
from lakeidx.inspect import index_files as inspect_index
from lakeidx.inspect import metadata as inspect_metadata
from lakeidx.inspect import parquet as inspect_parquet
from lakeidx.inspect.lookup_files import describe_listing, describe_lookup_file
from lakeidx.inspect.staging import describe_arrow, describe_changes, describe_staging, is_staging
from lakeidx.inspect.table_at import TableAt, table_of
from lakeidx.lookup.listing import LISTING_NAME
from lakeidx.storage import open_store
from lakeidx.storage.base import ObjectStore, name_of
from lakeidx.table.commit.changes import CHANGES_MAGIC

_FILE_INDEX_MAGIC = container.MAGIC.to_bytes(8, "big")
_HEAD_BYTES = 64
TAIL_BYTES = 64


@dataclass(frozen=True, slots=True)
class Inspected:
    """A file under inspection.

    head, tail   its first and last bytes, at most 64
    table        the table it belongs to, when one was found above it
    limit        most entries to show of long lists
    """

    store: ObjectStore
    path: str
    size: int
    head: bytes
    tail: bytes
    limit: int
    table: TableAt | None = field(default=None)

    @property
    def name(self) -> str:
        """Name of the file."""
        return name_of(self.path)

    def read(self) -> bytes:
        """Read the whole file."""
        return self.store.get(self.path)


@dataclass(frozen=True, slots=True)
class _Inspector:
    """One kind of file.

    recognises   looks at path, name, head and tail only; must not raise
    describe     returns JSON-able values; CorruptFileError for damaged files
    """

    kind: str
    recognises: Callable[[Inspected], bool]
    describe: Callable[[Inspected], dict[str, Any]]


def inspect_file(path: str, *, limit: int = 1000, store: ObjectStore | None = None) -> dict[str, Any]:
    """Recognise and decode a file.

    limit    most entries, hashes or positions to list; counts are always those of the whole file
    store    where it is; None = the local disk or S3, as the path says
    returns  ``path``, ``size``, ``kind`` and the fields of the kind; JSON-able, bytes as hex
    errors   NotFoundError; CorruptFileError for a damaged file; UnsupportedError for a file of no known kind
    """
    store = open_store(path) if store is None else store
    size = store.size(path)
    head, tail = store.get_ranges(path, [(0, _HEAD_BYTES), (max(0, size - TAIL_BYTES), TAIL_BYTES)])
    file = Inspected(store, path, size, head, tail, limit, table_of(store, path))
    for inspector in _KINDS:
        if inspector.recognises(file):
            return {"path": path, "size": size, "kind": inspector.kind, **inspector.describe(file)} | {"size": size}
    raise UnsupportedError("not a table file of a known kind", path=path)


def _named(file: Inspected, *kinds: NameKind) -> bool:
    return parse_file_name(file.name).kind in kinds


def _is_json(file: Inspected) -> bool:
    return file.head.lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{")


def _is_avro(file: Inspected) -> bool:
    return file.head.startswith(MAGIC)


def _is_deletion_vectors(file: Inspected) -> bool:
    return inspect_index.looks_like_deletion_vectors(file.head, file.size)


def _is_lookup_file(file: Inspected) -> bool:
    return parse_file_name(file.name.removesuffix(CONTEXT_SUFFIX)).kind is NameKind.LOOKUP


def _is_listing(file: Inspected) -> bool:
    return file.name == LISTING_NAME and _is_json(file)


def _is_file_index(file: Inspected) -> bool:
    return _named(file, NameKind.FILE_INDEX) or file.head.startswith(_FILE_INDEX_MAGIC)


def _is_other_format(file: Inspected) -> bool:
    return _named(file, NameKind.DATA) and not file.name.endswith((".parquet", ".orc", ".avro"))


def _other_format(file: Inspected) -> dict[str, Any]:
    raise UnsupportedError("a data file in a format that lakeidx does not read", path=file.path)


def _describe_json(file: Inspected) -> dict[str, Any]:
    return inspect_metadata.describe_json(file.read(), file.path)


def _describe_avro(file: Inspected) -> dict[str, Any]:
    return inspect_metadata.describe_avro(file.read(), file.path, file.table, file.limit)


def _describe_hint(file: Inspected) -> dict[str, Any]:
    return inspect_metadata.describe_hint(file.read(), file.path)


def _describe_vectors(file: Inspected) -> dict[str, Any]:
    return inspect_index.describe_deletion_vectors(file.read(), file.path, file.limit)


def _describe_hashes(file: Inspected) -> dict[str, Any]:
    return inspect_index.describe_hash_index(file.read(), file.path, file.limit)


def _describe_parquet(file: Inspected) -> dict[str, Any]:
    return inspect_parquet.describe_parquet(file.store.open_input(file.path, size=file.size), file.path)


def _describe_orc(file: Inspected) -> dict[str, Any]:
    return inspect_parquet.describe_orc(file.store.open_input(file.path, size=file.size), file.path)


def _damaged(file: Inspected) -> dict[str, Any]:
    kind = parse_file_name(file.name).kind
    raise CorruptFileError(
        f"by its name a {kind.value} file, but it begins with {file.head[:8].hex()!r}", path=file.path, offset=0
    )


def _describe_unfinished(file: Inspected) -> dict[str, Any]:
    return {"of": parse_file_name(file.name).label}


_KINDS = (
    # By name first: the hashes of a HASH index may look like the start of anything.
    _Inspector("hint", lambda f: _named(f, NameKind.HINT), _describe_hint),
    _Inspector("unfinished write", lambda f: _named(f, NameKind.TEMP), _describe_unfinished),
    _Inspector("lookup file", _is_lookup_file, lambda f: describe_lookup_file(f.store, f.path)),
    _Inspector("lookup listing", _is_listing, lambda f: describe_listing(f.read(), f.path, f.limit)),
    _Inspector("deletion vectors", _is_deletion_vectors, _describe_vectors),
    _Inspector("hash index", lambda f: _named(f, NameKind.INDEX), _describe_hashes),
    _Inspector("file index", _is_file_index, lambda f: inspect_index.describe_file_index(f.read(), f.path)),
    _Inspector("orc", lambda f: f.head.startswith(b"ORC"), _describe_orc),
    _Inspector("parquet", lambda f: f.head.startswith((b"PAR1", b"PARE")), _describe_parquet),
    _Inspector("avro", _is_avro, _describe_avro),
    _Inspector(
        "arrow file", lambda f: f.head.startswith(b"ARROW1"), lambda f: describe_arrow(f.read(), f.path, f.limit)
    ),
    _Inspector(
        "changes of a batch", lambda f: f.head.startswith(CHANGES_MAGIC), lambda f: describe_changes(f.read(), f.path)
    ),
    _Inspector("staging", lambda f: is_staging(f.path), lambda f: describe_staging(f.read(), f.path)),
    _Inspector("json", _is_json, _describe_json),
    _Inspector("other format", _is_other_format, _other_format),
    _Inspector("damaged", lambda f: not _named(f, NameKind.OTHER), _damaged),
)
