"""Recognise any file of a table and show its content as JSON: the engine of ``lakeidx inspect FILE``.

Files are recognised by content first and by name where the content has no mark of its own (HASH index, hints, lookup files).
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError
from pyroaring import BitMap

from lakeidx.api.inspect.metadata import describe_avro, describe_hint, describe_json
from lakeidx.api.inspect.table_at import TableAt, table_of
from lakeidx.batch.artifacts import (
    STAGING_DIR,
    BucketAssignmentReport,
    CommitNote,
    CommitReport,
    IndexWriteReport,
    IngestReport,
    SupersededRun,
)
from lakeidx.batch.commit_priority import PriorityFile
from lakeidx.batch.landed_files import LEDGER_DIR
from lakeidx.bucket_assignment.hash_set import sorted_distinct
from lakeidx.codec.containers.avro import MAGIC
from lakeidx.codec.containers.checksum import crc32, unseal
from lakeidx.data.json_values import json_rows
from lakeidx.data.parquet.chunks import FooterChunks, damage_of, open_footer
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.file_index import container
from lakeidx.file_index.container import FileIndexContainer
from lakeidx.format.deletion_vector import FILE_VERSION, MAGIC_32, MAGIC_64, scan_deletion_vectors
from lakeidx.format.file_names import NameKind, checksum_in, parse_file_name
from lakeidx.format.hash_index import check_checksum, decode_hash_index
from lakeidx.format.lookup.hash_store import CONTEXT_SUFFIX, HashContext, decode_context, describe_context
from lakeidx.format.lookup.sst import describe_sst
from lakeidx.key_index.bucket.consistent_hashing import COMMIT_SUFFIX, FILE_SUFFIX, decode_metadata
from lakeidx.key_index.table_view import COMMITS_DIR
from lakeidx.lookup.listing import LISTING_NAME, decode_listing
from lakeidx.pipeline_file.partitions import POINTER_DIR, CurrentBatch
from lakeidx.quality.whole_table import CHECKPOINT_FILE
from lakeidx.quality.whole_table import decode_checkpoint as decode_verified
from lakeidx.storage import open_store
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import name_of
from lakeidx.table.commit.changes import CHANGES_MAGIC, decode_changes

_FILE_INDEX_MAGIC = container.MAGIC.to_bytes(8, "big")
_HEAD_BYTES = 64
TAIL_BYTES = 64
_FIELD_ID = b"PARQUET:field_id"
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_ENCODINGS = {0: "PLAIN", 2: "PLAIN_DICTIONARY", 3: "RLE", 4: "BIT_PACKED", 5: "DELTA_BINARY_PACKED",
              6: "DELTA_LENGTH_BYTE_ARRAY", 7: "DELTA_BYTE_ARRAY", 8: "RLE_DICTIONARY", 9: "BYTE_STREAM_SPLIT"}  # fmt: skip
_REPORTS: Mapping[str, type[BaseModel]] = {
    "ingest": IngestReport,
    "bucket_assignment": BucketAssignmentReport,
    "index_write": IndexWriteReport,
    "commit": CommitReport,
}
_NOTES: Mapping[str, tuple[type[BaseModel], str]] = {
    "turn": (PriorityFile, "commit priority"),
    "committing": (CommitNote, "note of a commit"),
    "superseded": (SupersededRun, "note of a run that does not count"),
}


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

    def open(self) -> pa.NativeFile:
        """Open the file for reading parts of it."""
        return self.store.open_input(self.path, size=self.size)

    def read(self) -> bytes:
        """Read the whole file."""
        return self.store.get(self.path)


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
    for kind, recognises, describe in _KINDS:
        if recognises(file):
            return {"path": path, "size": size, "kind": kind, **describe(file)} | {"size": size}
    raise UnsupportedError("not a table file of a known kind", path=path)


def _named(file: Inspected, *kinds: NameKind) -> bool:
    return parse_file_name(file.name).kind in kinds


def _is_json(file: Inspected) -> bool:
    return file.head.lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{")


def _is_lookup_file(file: Inspected) -> bool:
    return parse_file_name(file.name.removesuffix(CONTEXT_SUFFIX)).kind is NameKind.LOOKUP


def _is_file_index(file: Inspected) -> bool:
    return _named(file, NameKind.FILE_INDEX) or file.head.startswith(_FILE_INDEX_MAGIC)


def _is_other_format(file: Inspected) -> bool:
    return _named(file, NameKind.DATA) and not file.name.endswith((".parquet", ".orc", ".avro"))


def _other_format(file: Inspected) -> dict[str, Any]:
    raise UnsupportedError("a data file in a format that lakeidx does not read", path=file.path)


def _damaged(file: Inspected) -> dict[str, Any]:
    kind = parse_file_name(file.name).kind
    raise CorruptFileError(
        f"by its name a {kind.value} file, but it begins with {file.head[:8].hex()!r}", path=file.path, offset=0
    )


def _is_deletion_vectors(file: Inspected) -> bool:
    """Return True for a deletion vector file: the version byte alone, or followed by a vector's size and magic."""
    if file.head[:1] != bytes([FILE_VERSION]):
        return False
    return file.size == 1 or file.head[5:9] in (MAGIC_32, MAGIC_64)


def _describe_deletion_vectors(file: Inspected) -> dict[str, Any]:
    """Show the vectors in file order; only the index manifest says which data file each belongs to."""
    vectors = scan_deletion_vectors(file.read(), file.path)
    shown = []
    for v in vectors[: file.limit]:
        positions = list(itertools.islice(iter(v.positions), file.limit))
        shown.append(
            {
                "offset": v.offset,
                "length": v.length,
                "form": "32-bit" if isinstance(v.positions, BitMap) else "64-bit",
                "cardinality": len(v.positions),
                "positions": positions,
            }
        )
    return {"count": len(vectors), "vectors": shown}


def _describe_hash_index(file: Inspected) -> dict[str, Any]:
    """Show the count and the hashes themselves, in file order; a checksum in the name is compared."""
    data = file.read()
    hashes = decode_hash_index(data, file.path)
    check_checksum(data, file.path)
    checksum = checksum_in(file.name)
    return {
        "count": len(hashes),
        "distinct": len(sorted_distinct(hashes)),
        "checksum": None if checksum is None else f"{checksum:08x}",
        "hashes": hashes[: file.limit].tolist(),
    }


def _describe_file_index(file: Inspected) -> dict[str, Any]:
    """Show the directory of a file index container; every payload is read and, where it has a checksum, compared with it."""
    container = FileIndexContainer.from_bytes(file.read(), file.path)
    indexes = []
    for entry in container.entries:
        if not entry.is_empty:
            container.payload(entry)
        checksum = None if entry.checksum is None else f"{entry.checksum:08x}"
        place = {"start": entry.start, "length": entry.length, "checksum": checksum}
        indexes.append({"column": entry.column, "type": entry.type, "empty": entry.is_empty, **place})
    return {"count": len(indexes), "indexes": indexes}


def describe_lookup_file(store: ObjectStore, path: str) -> dict[str, Any]:
    """Decode a sort store file, or a hash store file by its context (either of the two may be named).

    Needs no key types: blocks and pages are checked against their checksums, the order of keys is not.

    returns  JSON values: "kind", sizes, footer and blocks, or the context
    errors   NotFoundError; CorruptFileError for damage, or when the file is neither
    """
    path = path.removesuffix(CONTEXT_SUFFIX)
    context_path = path + CONTEXT_SUFFIX
    if not store.exists(context_path):
        return describe_sst(memoryview(store.get(path)), path=path)
    context = decode_context(store.get(context_path), path=context_path)
    _check_pages(store.get(path), context, path)
    return describe_context(context)


def _check_pages(data: bytes, context: HashContext, path: str) -> None:
    if len(data) != context.file_size:
        raise CorruptFileError(f"expected {context.file_size} bytes, found {len(data)}", path=path, offset=0)
    start = 0
    for number, size in enumerate(context.page_sizes.tolist()):
        found, expected = crc32(data[start : start + size]), context.page_checksums[number]
        if found != expected:
            raise CorruptFileError(f"page checksum is {found:08x}, expected {expected:08x}", path=path, offset=start)
        start += size


def _describe_listing(file: Inspected) -> dict[str, Any]:
    """Show which data file of a bucket has which lookup file."""
    files = [asdict(f) for f in decode_listing(file.read(), file.path).values()]
    return {"count": len(files), "files": files[: file.limit]}


def _describe_parquet(file: Inspected) -> dict[str, Any]:
    """Show the footer; bounds of columns in their physical form.

    errors   CorruptFileError
    """
    with damage_of(file.path):
        footer = open_footer(file.open(), file.path)
        meta = footer.metadata
        return {
            "rows": meta.num_rows,
            "createdBy": meta.created_by,
            "formatVersion": str(meta.format_version),
            "fields": [_field(f) for f in meta.schema.to_arrow_schema()],
            "rowGroups": [
                {
                    "rows": meta.row_group(g).num_rows,
                    "bytes": meta.row_group(g).total_byte_size,
                    "columns": [_column(footer.chunks, g, i, leaf) for i, leaf in enumerate(footer.leaves)],
                }
                for g in range(meta.num_row_groups)
            ],
            "keyValueMetadata": _texts(meta.metadata),
        }


def _texts(metadata: dict[bytes, bytes] | None) -> dict[str, str]:
    out = {}
    for key, value in (metadata or {}).items():
        if key != b"ARROW:schema":
            out[key.decode("utf-8", "replace")] = value.decode("utf-8", "backslashreplace")
    return out


def _field(f: pa.Field) -> dict[str, Any]:
    ids = f.metadata or {}
    return {
        "name": f.name,
        "type": str(f.type),
        "nullable": f.nullable,
        "fieldId": int(ids[_FIELD_ID]) if _FIELD_ID in ids else None,
    }


def _column(chunks: FooterChunks, group: int, column: int, leaf: pq.ColumnSchema) -> dict[str, Any]:
    stats = chunks.stats(group, column, leaf.physical_type)
    codec = chunks.codec(group, column)
    return {
        "path": leaf.path,
        "physicalType": leaf.physical_type,
        "compression": _CODECS[codec] if 0 <= codec < len(_CODECS) else str(codec),
        "encodings": [_ENCODINGS.get(e, str(e)) for e in chunks.encodings(group, column)],
        "compressedBytes": chunks.compressed_bytes(group, column),
        "nullCount": stats.null_count,
        "min": _shown(stats.low),
        "max": _shown(stats.high),
    }


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _describe_orc(file: Inspected) -> dict[str, Any]:
    """Describe the rows, columns and stripes of an ORC file.

    errors   CorruptFileError
    """
    try:
        opened = orc.ORCFile(file.open())
        return {
            "rows": opened.nrows,
            "createdBy": opened.software_version,
            "fields": [_field(f) for f in opened.schema],
            "stripes": opened.nstripes,
            "compression": opened.compression,
        }
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError) as e:
        raise CorruptFileError(f"not a readable ORC file: {e}", path=file.path) from e


def describe_staging(data: bytes, path: str) -> dict[str, Any]:
    """Show a file below ``_lakeidx`` that no format of its own marks.

    errors   CorruptFileError for a damaged file; UnsupportedError for one that lakeidx does not write there
    """
    *_, folder, name = path.split("/")
    if name.endswith(FILE_SUFFIX):
        return {"kind": "consistent hashing ring", **asdict(decode_metadata(data, path))}
    if name.endswith(COMMIT_SUFFIX) and not data:
        return {"kind": "commit marker of a ring", "instant": name.removesuffix(COMMIT_SUFFIX)}
    if folder == COMMITS_DIR:
        return {"kind": "commit marker", "instant": name, "snapshotId": _number(data, path)}
    if folder == LEDGER_DIR:
        return {"kind": "committed landing file", "batch_id": data.decode("utf-8", "replace").partition("\n")[0]}
    if CHECKPOINT_FILE.fullmatch(name):
        return {"kind": "results of a group of partitions, of a verification", **decode_verified(data, path).to_json()}
    return _describe_staging(_parse(data, path), folder, path)


def _is_staging(path: str) -> bool:
    """Return True for a path below ``_lakeidx``, but for the files of a key state, which is a table."""
    return STAGING_DIR in path.split("/") and "/_index/state/" not in path


def _describe_changes(file: Inspected) -> dict[str, Any]:
    """Show how many manifest entries of each kind a batch will commit."""
    changes = decode_changes(file.read(), file.path)
    return {"entries": {f.name: len(getattr(changes, f.name)) for f in fields(changes)}}


def _describe_arrow(file: Inspected) -> dict[str, Any]:
    """Show the columns and first rows of an Arrow IPC file."""
    try:
        with pa.ipc.open_file(pa.BufferReader(file.read())) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(f"not a readable Arrow file: {error}", path=file.path) from error
    metadata = {k.decode("utf-8", "replace"): v.hex() for k, v in (table.schema.metadata or {}).items()}
    return {
        "rows": table.num_rows,
        "fields": [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in table.schema],
        "metadata": metadata,
        "first": json_rows(table.slice(0, min(file.limit, 10))),
    }


def _describe_staging(raw: dict[str, Any], folder: str, path: str) -> dict[str, Any]:
    model, kind = _NOTES.get(str(raw.get("kind"))) or (_REPORTS.get(str(raw.get("stage"))), "stage report")
    try:
        if folder == POINTER_DIR:
            return {"kind": "current batch of a partition", **asdict(CurrentBatch(**raw))}
        if model is not None:
            return {**model.model_validate(raw).model_dump(mode="json"), "kind": kind}
    except (ValidationError, TypeError) as error:
        raise CorruptFileError(f"not a {kind}: {str(error).splitlines()[0]}", path=path) from error
    raise UnsupportedError("a JSON file, but not one that lakeidx writes beside a table", path=path)


def _parse(data: bytes, path: str) -> dict[str, Any]:
    try:
        found = json.loads(unseal(data, path))
    except ValueError as error:
        raise UnsupportedError("not a file that lakeidx writes beside a table", path=path) from error
    if not isinstance(found, dict):
        raise UnsupportedError("a JSON file, but not one that lakeidx writes beside a table", path=path)
    return found


def _number(data: bytes, path: str) -> int:
    try:
        return int(data)
    except ValueError as error:
        raise CorruptFileError(f"expected a snapshot id, found {bytes(data[:40])!r}", path=path, offset=0) from error


#: Kinds of files in the order in which they are tried: name, what recognises one, which looks at path, name, head and tail only and
#: does not raise, and what describes it, with a more exact kind where it knows one; CorruptFileError for damaged files.
_KINDS: tuple[tuple[str, Callable[[Inspected], bool], Callable[[Inspected], dict[str, Any]]], ...] = (
    # By name first: the hashes of a HASH index may look like the start of anything.
    ("hint", lambda f: _named(f, NameKind.HINT), lambda f: describe_hint(f.read(), f.path)),
    ("unfinished write", lambda f: _named(f, NameKind.TEMP), lambda f: {"of": parse_file_name(f.name).label}),
    ("lookup file", _is_lookup_file, lambda f: describe_lookup_file(f.store, f.path)),
    ("lookup listing", lambda f: f.name == LISTING_NAME and _is_json(f), _describe_listing),
    ("deletion vectors", _is_deletion_vectors, _describe_deletion_vectors),
    ("hash index", lambda f: _named(f, NameKind.INDEX), _describe_hash_index),
    ("file index", _is_file_index, _describe_file_index),
    ("orc data file", lambda f: f.head.startswith(b"ORC"), _describe_orc),
    ("parquet data file", lambda f: f.head.startswith((b"PAR1", b"PARE")), _describe_parquet),
    ("avro", lambda f: f.head.startswith(MAGIC), lambda f: describe_avro(f.read(), f.path, f.table, f.limit)),
    ("arrow file", lambda f: f.head.startswith(b"ARROW1"), _describe_arrow),
    ("changes of a batch", lambda f: f.head.startswith(CHANGES_MAGIC), _describe_changes),
    ("staging", lambda f: _is_staging(f.path), lambda f: describe_staging(f.read(), f.path)),
    ("json", _is_json, lambda f: describe_json(f.read(), f.path)),
    ("other format", _is_other_format, _other_format),
    ("damaged", lambda f: not _named(f, NameKind.OTHER), _damaged),
)
