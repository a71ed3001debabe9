"""System tables about the files of one state: data files, manifests, partitions, buckets, index files and file indexes.

Values of statistics and keys are spelled as Java spells its internal ones: dates as days, timestamps in ISO; of bytes, where Java
prints an address in memory, their hex.

source   org.apache.paimon.table.system.FilesTable, FileKeyRangesTable, FileIndexesTable, ManifestsTable, PartitionsTable,
         BucketsTable, TableIndexesTable; org.apache.paimon.stats.SimpleStatsEvolution, a build after release 2.0.0
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.data.cast import scalar_cast
from lakeidx.file_index.container import FileIndexContainer, IndexAt
from lakeidx.file_index.write import INDEX_SUFFIX
from lakeidx.format.data_file import DataFileMeta, FileSource
from lakeidx.format.index_manifest import DELETION_VECTORS_INDEX
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.partition_names import is_blank, partition_value_text
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.plan import skips_level_0, value_stats
from lakeidx.table.scan.states import Fallback, find_fallback
from lakeidx.table.system.described import Row
from lakeidx.table.view import data_file_path, decode_partition_dict, load_live
from lakeidx.types import BYTES_ROOTS, MAX_LENGTH, DataType, Root

_STRING = DataType(Root.VARCHAR, length=MAX_LENGTH)
_PLACE = "partition STRING, bucket INT!"
_FILE = (
    f"{_PLACE}, file_path STRING!, file_format STRING!, schema_id BIGINT!, level INT!, record_count BIGINT!, "
    "file_size_in_bytes BIGINT!, min_key STRING, max_key STRING"
)
FILES = (
    f"{_FILE}, null_value_counts STRING!, min_value_stats STRING!, max_value_stats STRING!, min_sequence_number BIGINT, "
    "max_sequence_number BIGINT, creation_time TIMESTAMP(3), deleteRowCount BIGINT, file_source STRING, "
    "first_row_id BIGINT, write_cols ARRAY<STRING>"
)
FILE_KEY_RANGES = f"{_FILE}, first_row_id BIGINT"
FILE_INDEXES = (
    f"{_PLACE}, file_path STRING!, file_size_in_bytes BIGINT!, record_count BIGINT!, schema_id BIGINT!, "
    "column_name STRING!, index_type STRING!, storage_type STRING!, index_file_path STRING, "
    "index_size_in_bytes BIGINT!, index_container_size_in_bytes BIGINT!, is_empty BOOLEAN!"
)
MANIFESTS = (
    "file_name STRING!, file_size BIGINT!, num_added_files BIGINT!, num_deleted_files BIGINT!, schema_id BIGINT!, "
    "min_partition_stats STRING, max_partition_stats STRING, min_row_id BIGINT, max_row_id BIGINT"
)
PARTITIONS = (
    "partition STRING, record_count BIGINT!, file_size_in_bytes BIGINT!, file_count BIGINT!, "
    "last_update_time TIMESTAMP(3), created_at TIMESTAMP(3), created_by STRING, updated_by STRING, options STRING, "
    "total_buckets INT!, done BOOLEAN!, deleted_record_count BIGINT"
)
BUCKETS = (
    f"{_PLACE}, record_count BIGINT!, file_size_in_bytes BIGINT!, file_count BIGINT!, last_update_time TIMESTAMP(3)"
)
TABLE_INDEXES = (
    f"{_PLACE}, index_type STRING!, file_name STRING!, file_size BIGINT!, row_count BIGINT!, dv_ranges VECTORS, "
    "row_range_start BIGINT, row_range_end BIGINT, index_field_id INT, index_field_name STRING"
)


@dataclass(frozen=True, slots=True)
class AskedState:
    """The state whose files are shown.

    schema   by whose columns statistics and partitions are shown: the newest one, or that of an older state
    asked    how an older state was asked for, as `find_fallback` takes it
    """

    metadata: TableMetadata
    snapshot: Snapshot | None
    schema: TableSchema
    asked: Mapping[str, Any] = field(default_factory=dict)

    def entries(self) -> Iterable[ManifestEntry]:
        """Return the live data files."""
        return () if self.snapshot is None else load_live(self.metadata, self.snapshot)

    def partition(self, partition: bytes) -> str:
        """Return a partition as the text of its row: ``{1, a}``."""
        types = self.schema.partition_types
        return self.row_text(split_arity(partition)[1], types)

    def row_text(self, row: bytes, types: Sequence[DataType]) -> str:
        """Return the values of a row, cast to text, in braces."""
        values = zip(decode_row(row, types), types, strict=True)
        return f"{{{', '.join('null' if v is None else scalar_cast(t, _STRING)(v) for v, t in values)}}}"


def files(state: AskedState) -> Iterator[Row]:
    """Yield the live data files."""
    for entry in state.entries():
        f = entry.file
        nulls, low, high = _stats(state, f)
        source = None if f.file_source is None else FileSource(f.file_source).name
        yield (
            *_file(state, entry), _java_map(nulls), _java_map(low), _java_map(high), f.min_sequence_number,
            f.max_sequence_number, f.creation_time_ms, f.delete_row_count, source, f.first_row_id, f.write_cols,
        )  # fmt: skip


def file_key_ranges(state: AskedState) -> Iterator[Row]:
    """Yield the live data files with their key ranges."""
    for entry in state.entries():
        yield *_file(state, entry), entry.file.first_row_id


def _file(state: AskedState, entry: ManifestEntry) -> Row:
    f = entry.file
    schema = state.metadata.load_schema(f.schema_id)
    return (
        state.partition(entry.partition), entry.bucket, data_file_path(state.metadata, entry),
        f.file_name.rpartition(".")[2], f.schema_id, f.level, f.row_count, f.file_size,
        _key(f.min_key, schema), _key(f.max_key, schema),
    )  # fmt: skip


def _key(key: bytes, schema: TableSchema) -> str | None:
    arity, row = split_arity(key)
    if not arity:
        return None
    types = schema.key_types
    return f"[{', '.join(_internal(v, t) for v, t in zip(decode_row(row, types), types, strict=True))}]"


def _internal(value: Any, t: DataType) -> str:
    """Spell an internal value as Java does."""
    if value is None:
        return "null"
    return bytes(value).hex() if t.root in BYTES_ROOTS else str(partition_value_text(value, t))


def _stats(state: AskedState, file: DataFileMeta) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Null counts, minima and maxima by the names of the state's columns, which a file of an older schema may not have."""
    own = state.metadata.load_schema(file.schema_id)
    known = value_stats(file, own, own.field_names)
    nulls: dict[str, str] = {}
    low: dict[str, str] = {}
    high: dict[str, str] = {}
    for column in state.schema.fields:
        old = own.fields_by_id.get(column.id)
        stats = None if old is None else known.get(old.name)
        count = file.row_count if old is None else None if stats is None else stats.null_count
        nulls[column.name] = "null" if count is None else str(count)
        for bounds, value in ((low, stats and stats.min), (high, stats and stats.max)):
            if (
                value is not None
                and old is not None
                and old.type.with_nullable(True) != column.type.with_nullable(True)
            ):
                value = scalar_cast(old.type, column.type)(value)
            bounds[column.name] = _internal(value, column.type)
    return nulls, low, high


def _java_map(values: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{k}={values[k]}' for k in sorted(values))}}}"


def file_indexes(state: AskedState) -> Iterator[Row]:
    """Yield the file indexes of the live data files, each column's and type's."""
    for entry in state.entries():
        f = entry.file
        path = data_file_path(state.metadata, entry)
        for storage, index_path, size, found in _containers(state, entry, path):
            for at in found:
                yield (
                    state.partition(entry.partition), entry.bucket, path, f.file_size, f.row_count, f.schema_id, at.column,
                    at.type, storage, index_path, at.length, size, at.is_empty,
                )  # fmt: skip


def _containers(
    state: AskedState, entry: ManifestEntry, path: str
) -> Iterator[tuple[str, str | None, int, tuple[IndexAt, ...]]]:
    """Yield where the indexes of a data file are: storage type, path, bytes, and what is in there."""
    embedded = entry.file.embedded_index
    if embedded is not None:
        yield "EMBEDDED", None, len(embedded), FileIndexContainer.from_bytes(embedded, path).entries
        return
    store = state.metadata.store
    for name in entry.file.extra_files:
        if name.endswith(INDEX_SUFFIX):
            beside = f"{path.rpartition('/')[0]}/{name}"
            size = store.size(beside)
            opened = FileIndexContainer(lambda at, length: store.get_range(beside, at, length), size, beside)  # noqa: B023
            yield "FILE", beside, size, opened.entries


def manifests(state: AskedState) -> Iterator[Row]:
    """Yield the manifests, those of changelog files, too."""
    metadata, s = state.metadata, state.snapshot
    if s is None:
        return
    found = list(metadata.data_manifests(s))
    if s.changelog_manifest_list is not None:
        found += metadata.load_manifest_list(s.changelog_manifest_list, s.changelog_manifest_list_size)
    for m in found:
        low, high = (
            state.row_text(split_arity(v)[1], state.schema.partition_types)
            for v in (m.partition_stats.min_values, m.partition_stats.max_values)
        )
        yield (
            m.file_name, m.file_size, m.num_added_files, m.num_deleted_files, m.schema_id, low, high,
            m.min_row_id, m.max_row_id,
        )  # fmt: skip


@dataclass(slots=True)
class _Sum:
    """Sum of the entries of a place; its last change may be the removal of a file."""

    rows: int = 0
    size: int = 0
    files: int = 0
    last: int | None = None

    def add(self, entry: ManifestEntry) -> None:
        sign, f = (1 if entry.kind is FileKind.ADD else -1), entry.file
        self.rows, self.size, self.files = (
            self.rows + sign * f.row_count, self.size + sign * f.file_size, self.files + sign
        )  # fmt: skip
        if f.creation_time_ms is not None:
            self.last = max(f.creation_time_ms, f.creation_time_ms if self.last is None else self.last)


def _sums(
    state: AskedState | Fallback, *, seen: bool = False
) -> tuple[dict[tuple[bytes, int], _Sum], dict[bytes, int]]:
    """Add up the entries by (partition, bucket), and the bucket number of each partition.

    seen   only of files that readers see
    """
    if state.snapshot is None:
        return {}, {}
    entries = state.metadata.load_manifests(state.metadata.data_manifests(state.snapshot))
    if seen and skips_level_0(state.schema):
        entries = entries.select(entries.column("level") > 0)
    sums: dict[tuple[bytes, int], _Sum] = {}
    for entry in entries:
        sums.setdefault((entry.partition, entry.bucket), _Sum()).add(entry)
    return sums, entries.total_buckets()


def partition_sums(state: AskedState) -> dict[bytes, tuple[_Sum, int]]:
    """Add up the entries by partition, of those that have files, with the bucket number of each.

    With `scan.fallback-branch` there are the partitions of the branch, too, which the table lacks; and of both only files count
    that readers see, as Java does it.
    """
    branch = find_fallback(state.metadata, state.schema, state.snapshot, **state.asked)
    out: dict[bytes, tuple[_Sum, int]] = {}
    for part in (state,) if branch is None else (state, branch):
        sums, buckets = _sums(part, seen=branch is not None)
        whole: dict[bytes, _Sum] = {}
        for (partition, _), s in sums.items():
            found = whole.setdefault(partition, _Sum())
            found.rows, found.size, found.files = found.rows + s.rows, found.size + s.size, found.files + s.files
            found.last = max((t for t in (found.last, s.last) if t is not None), default=None)
        out = {p: (s, buckets[p]) for p, s in whole.items() if s.files > 0} | out
    return out


def partitions(state: AskedState) -> Iterator[Row]:
    """Yield the partitions, sorted by name; who made one is known to catalogs only."""
    whole = partition_sums(state)
    # Java looks for vectors in the table alone, also for partitions of a branch that it falls back on.
    deleted = _deleted(state)
    names = {p: _partition_name(state.schema, p) for p in whole}
    for partition in sorted(names, key=names.__getitem__):
        s, buckets = whole[partition]
        yield (
            names[partition], s.rows, s.size, s.files, s.last, None, None, None, None, buckets, False,
            deleted.get(partition, 0),
        )  # fmt: skip


def _partition_name(schema: TableSchema, partition: bytes) -> str:
    default = schema.table_options.partition_default_name
    parts = []
    for name, value in decode_partition_dict(partition, schema).items():
        text = default if value is None else scalar_cast(schema.field(name).type, _STRING)(value)
        parts.append(f"{name}={default if is_blank(text) else text}")
    return "/".join(parts)


def _deleted(state: AskedState) -> dict[bytes, int | None]:
    """Rows that deletion vectors hide, by partition; None where a writer did not count."""
    out: dict[bytes, int | None] = {}
    if state.snapshot is None or not state.schema.table_options.deletion_vectors_enabled:
        return out
    for entry in state.metadata.load_index_manifest(state.snapshot.index_manifest):
        for vector in (entry.dv_ranges or ()) if entry.index_type == DELETION_VECTORS_INDEX else ():
            before = out.get(entry.partition, 0)
            out[entry.partition] = None if before is None or vector.cardinality is None else before + vector.cardinality
    return out


def buckets(state: AskedState) -> Iterator[Row]:
    """Yield the buckets, sorted."""
    found = [(state.partition(p), b, s) for (p, b), s in _sums(state)[0].items() if s.files > 0]
    for partition, bucket, s in sorted(found, key=lambda row: row[:2]):
        yield partition, bucket, s.rows, s.size, s.files, s.last


def table_indexes(state: AskedState) -> Iterator[Row]:
    """Yield the index files: of hashes, of deletion vectors, and those of other writers."""
    if state.snapshot is None:
        return
    for e in state.metadata.load_index_manifest(state.snapshot.index_manifest):
        vectors = None if e.dv_ranges is None else [
            {"f0": v.data_file_name, "f1": v.offset, "f2": v.length, "_CARDINALITY": v.cardinality} for v in e.dv_ranges
        ]  # fmt: skip
        of_rows: Row = (None, None, None, None)
        if (g := e.global_index) is not None:
            of_rows = (
                g.row_range_start,
                g.row_range_end,
                g.index_field_id,
                _indexed(state.schema, g.index_field_id, g.extra_field_ids),
            )
        yield (
            state.partition(e.partition), e.bucket, e.index_type, e.file_name, e.file_size, e.row_count, vectors, *of_rows
        )  # fmt: skip


def _indexed(schema: TableSchema, first: int, others: tuple[int, ...] | None) -> str | None:
    """Names of indexed columns; None when one of them is gone."""
    found = [schema.fields_by_id.get(i) for i in (first, *(others or ()))]
    return ",".join(f.name for f in found if f is not None) if None not in found else None
