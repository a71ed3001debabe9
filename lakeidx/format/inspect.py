"""Tell what a file of a table is and show what it says, as JSON: the engine of ``lakeidx inspect FILE``.

Files are recognised by content first and by name where the content has no mark of its own (HASH index, hints). Further kinds
(lookup files, file indexes, ...) are added by their owners with `register`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lakeidx.codec import avro
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.format import inspect_index, inspect_metadata, inspect_parquet
from lakeidx.format.file_names import NameKind, parse_file_name
from lakeidx.format.table_at import TableAt, table_of
from lakeidx.storage.base import ObjectStore, name_of

HEAD_BYTES = 64
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
        """The file's name."""
        return name_of(self.path)

    def read(self) -> bytes:
        """The whole file."""
        return self.store.get(self.path)


@dataclass(frozen=True, slots=True)
class Inspector:
    """One kind of file.

    recognises   looks at name, head and tail only; must not raise
    describe     returns JSON-able values; CorruptFileError for damaged files
    """

    kind: str
    recognises: Callable[[Inspected], bool]
    describe: Callable[[Inspected], dict[str, Any]]


_registered: list[Inspector] = []


def register(inspector: Inspector) -> None:
    """Add a kind; it is asked before the built-in ones. A kind registered again is replaced."""
    _registered[:] = [inspector, *(i for i in _registered if i.kind != inspector.kind)]


def inspect_file(store: ObjectStore, path: str, *, limit: int = 1000) -> dict[str, Any]:
    """What a file is and says.

    limit    most entries, hashes or positions to list; counts are always those of the whole file
    returns  ``path``, ``size``, ``kind`` and what the kind has to say; JSON-able, bytes as hex
    errors   NotFoundError; CorruptFileError for a damaged file; UnsupportedError when nobody knows the file
    """
    size = store.size(path)
    head, tail = store.get_ranges(path, [(0, HEAD_BYTES), (max(0, size - TAIL_BYTES), TAIL_BYTES)])
    file = Inspected(store, path, size, head, tail, limit, table_of(store, path))
    for inspector in (*_registered, *_BUILT_IN):
        if inspector.recognises(file):
            return {"path": path, "size": size, "kind": inspector.kind, **inspector.describe(file)}
    raise UnsupportedError("this is no file of a table that lakeidx knows", path=path)


def _named(file: Inspected, *kinds: NameKind) -> bool:
    return parse_file_name(file.name).kind in kinds


def _is_json(file: Inspected) -> bool:
    return file.head.lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{")


def _is_avro(file: Inspected) -> bool:
    return file.head.startswith(avro.MAGIC)


def _is_deletion_vectors(file: Inspected) -> bool:
    return inspect_index.looks_like_deletion_vectors(file.head, file.size)


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


_BUILT_IN = (
    # By name first: the hashes of a HASH index may look like the start of anything.
    Inspector("hint", lambda f: _named(f, NameKind.HINT), _describe_hint),
    Inspector("deletion vectors", _is_deletion_vectors, _describe_vectors),
    Inspector("hash index", lambda f: _named(f, NameKind.INDEX), _describe_hashes),
    Inspector("orc", lambda f: f.head.startswith(b"ORC"), _describe_orc),
    Inspector("parquet", lambda f: f.head.startswith((b"PAR1", b"PARE")), _describe_parquet),
    Inspector("avro", _is_avro, _describe_avro),
    Inspector("json", _is_json, _describe_json),
    Inspector("damaged", lambda f: not _named(f, NameKind.OTHER, NameKind.TEMP, NameKind.LOOKUP), _damaged),
)
