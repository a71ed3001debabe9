"""A table for key indexes: real Parquet files in Paimon's layout, and the table's state as plain Python.

What a key index should answer is computed here from the records themselves, key by key, without any code under test.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.bucket_assignment.hash_map import HashMap
from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.codec.values import internal_to_arrow
from lakeidx.format.data_file import EMPTY_STATS, DataFileMeta
from lakeidx.key_index.bloom.footer import BloomFooterBuilder
from lakeidx.key_index.keys.parquet_keys import KEY_FIELD_ID, ParquetKeyReader
from lakeidx.key_index.locations import KeyBatch, LiveFile
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import IndexContext
from lakeidx.key_index.table_view import SnapshotTable
from lakeidx.storage import open_store
from lakeidx.table.key_buckets import KeyBuckets
from lakeidx.tasks.runner import LocalRunner
from lakeidx.types import Field, parse_type, to_arrow

_STRING = parse_type("STRING NOT NULL")


def partition_bytes(name: str) -> bytes:
    """Manifest bytes of partition ``p=<name>``; "" = the partition of an unpartitioned table."""
    return with_arity(encode_row([name], [_STRING]), 1) if name else bytes(12)


@dataclass(frozen=True)
class Record:
    """One row in a file: key values, kind (0 +I, 3 -D), sequence number."""

    key: tuple[Any, ...]
    kind: int
    sequence: int


@dataclass
class FakeTable:
    """Files and what is in them, as key indexes see it (a `SnapshotTable`); `snapshot_id` counts commits."""

    root: Path
    types: Sequence[str] = ("BIGINT",)
    snapshot_id: int | None = None
    live: list[LiveFile] = field(default_factory=list)
    written: list[LiveFile] = field(default_factory=list)
    records: dict[str, list[Record]] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)
    table_id: str = "table-1"
    tokens: dict[int, str] = field(default_factory=dict)
    overwritten: list[int] = field(default_factory=list)
    _sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)
    history: dict[int | None, list[LiveFile]] = field(default_factory=dict)

    @property
    def key_fields(self) -> tuple[Field, ...]:
        return tuple(Field(i + 1, f"k{i}", parse_type(f"{t} NOT NULL")) for i, t in enumerate(self.types))

    # -- changing the table --------------------------------------------------------------------------------------

    def commit(self, instant: str = "") -> int:
        """A new snapshot."""
        self.snapshot_id = (self.snapshot_id or 0) + 1
        self.tokens[self.snapshot_id] = f"token-{self.snapshot_id}-{len(self.tokens)}-{instant}"
        self.history[self.snapshot_id] = list(self.live)
        if instant:
            self.committed.add(instant)
        return self.snapshot_id

    def write(
        self,
        partition: str,
        bucket: int,
        rows: Sequence[tuple[tuple[Any, ...], int]],
        *,
        level: int = 0,
        options: dict[str, str] | None = None,
        sequences: Sequence[int] | None = None,
        thin: bool = False,
        row_group_size: int | None = None,
    ) -> LiveFile:
        """A data file; `options` given = with the footer filters that these options ask for."""
        place = (partition, bucket)
        start = self._sequences.get(place, 0)
        numbers = list(sequences) if sequences is not None else list(range(start, start + len(rows)))
        self._sequences[place] = max([start, *(n + 1 for n in numbers)])
        records = [Record(k, kind, n) for (k, kind), n in zip(rows, numbers, strict=True)]
        records.sort(key=lambda r: self._sort_key(r.key))
        name = f"data-{len(self.records):04d}-0.parquet"
        folder = self.root / (f"p={partition}" if partition else "") / f"bucket-{bucket}"
        folder.mkdir(parents=True, exist_ok=True)
        columns = {
            f.name: internal_to_arrow([r.key[i] for r in records], f.type) for i, f in enumerate(self.key_fields)
        }
        arrays, fields = [], []
        for f in self.key_fields if not thin else ():
            arrays.append(columns[f.name])
            fields.append(_with_id(f"_KEY_{f.name}", to_arrow(f.type), f.id + KEY_FIELD_ID))
        arrays += [pa.array([r.sequence for r in records], pa.int64()), pa.array([r.kind for r in records], pa.int8())]
        fields += [pa.field("_SEQUENCE_NUMBER", pa.int64()), pa.field("_VALUE_KIND", pa.int8())]
        for f in self.key_fields:
            arrays.append(columns[f.name])
            fields.append(_with_id(f.name, to_arrow(f.type), f.id))
        table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        if options is not None:
            builder = BloomFooterBuilder([f.name for f in self.key_fields], IndexOptions(options))
            middle = len(records) // 2
            builder.add(table.slice(0, middle))
            builder.add(table.slice(middle))
            table = table.replace_schema_metadata(dict(builder.finish()))
        path = folder / name
        pq.write_table(table, path, row_group_size=row_group_size)
        types = [f.type for f in self.key_fields]
        meta = DataFileMeta(
            file_name=name,
            file_size=path.stat().st_size,
            row_count=len(records),
            min_key=with_arity(encode_row(list(records[0].key), types), len(types)),
            max_key=with_arity(encode_row(list(records[-1].key), types), len(types)),
            key_stats=EMPTY_STATS,
            value_stats=EMPTY_STATS,
            min_sequence_number=min(numbers),
            max_sequence_number=max(numbers),
            schema_id=0,
            level=level,
            delete_row_count=sum(r.kind in (1, 3) for r in records),
        )
        raw = partition_bytes(partition)
        self._names[raw] = partition
        file = LiveFile(raw, bucket, str(path), meta)
        self.live.append(file)
        self.written.append(file)
        self.records[name] = records
        return file

    def drop(self, names: Collection[str]) -> None:
        """Take files out of the table."""
        self.live = [f for f in self.live if f.meta.file_name not in names]

    def compact(self, partition: str, bucket: int, **kwargs: Any) -> tuple[LiveFile | None, list[str]]:
        """All files of a bucket into one at level 5; deleted keys vanish."""
        old = [f for f in self.live if (self._names[f.partition], f.bucket) == (partition, bucket)]
        newest: dict[tuple[Any, ...], Record] = {}
        for file in old:
            for r in self.records[file.meta.file_name]:
                if r.key not in newest or newest[r.key].sequence < r.sequence:
                    newest[r.key] = r
        self.drop([f.meta.file_name for f in old])
        kept = [r for r in newest.values() if r.kind == 0]
        names = [f.meta.file_name for f in old]
        if not kept:
            return None, names
        rows, numbers = [(r.key, 0) for r in kept], [r.sequence for r in kept]
        return self.write(partition, bucket, rows, level=5, sequences=numbers, **kwargs), names

    # -- what is true --------------------------------------------------------------------------------------------

    def newest(self) -> dict[tuple[str, int, tuple[Any, ...]], Record]:
        """(partition, bucket, key) -> newest record."""
        out: dict[tuple[str, int, tuple[Any, ...]], Record] = {}
        for file in self.live:
            for r in self.records[file.meta.file_name]:
                at = (self._names[file.partition], file.bucket, r.key)
                if at not in out or out[at].sequence < r.sequence:
                    out[at] = r
        return out

    def expected(self, rows: Sequence[tuple[str, tuple[Any, ...]]], *, anywhere: bool) -> list[tuple[str, int] | None]:
        """(partition, bucket) of each row, None = an insert."""
        newest = self.newest()
        out: list[tuple[str, int] | None] = []
        for partition, key in rows:
            places = {(p, b): r for (p, b, k), r in newest.items() if k == key}
            own = [place for place in places if place[0] == partition]
            alive = [place for place, r in places.items() if r.kind == 0]
            chosen = (alive or own) if anywhere else own
            out.append(chosen[0] if chosen else None)
        return out

    def ever(self, partition: str, key: tuple[Any, ...]) -> set[tuple[str, int]]:
        """Where a key of a partition stood at any time."""
        return {
            (partition, f.bucket)
            for f in self.written
            if self._names[f.partition] == partition and any(r.key == key for r in self.records[f.meta.file_name])
        }

    # -- SnapshotTable -----------------------------------------------------------------------------------------------

    def snapshot_token(self, snapshot_id: int) -> str | None:
        return self.tokens.get(snapshot_id)

    def is_committed(self, instants: Sequence[str]) -> list[bool]:
        return [i in self.committed for i in instants]

    def confirm(self, instant: str) -> None:
        assert instant in self.committed

    def kept_since(self, snapshot_id: int) -> bool:
        return all(s <= snapshot_id for s in self.overwritten)

    def files(self, partitions: Collection[bytes] | None) -> Sequence[LiveFile]:
        return [f for f in self.live if partitions is None or f.partition in partitions]

    def files_at(self, snapshot_id: int) -> Sequence[LiveFile]:
        return self.history[snapshot_id]

    def key_buckets(self, partition: bytes, hashes: np.ndarray, *, threads: int = 1) -> KeyBuckets:
        known, files = HashMap(), self.hash_files(partition)
        stored = [(len(h), known.store(h, b)) for b, h in files]
        rows = sum(n for n, _ in stored)
        return KeyBuckets(known, (), len(files), rows, rows - sum(new for _, new in stored))

    def hash_files(self, partition: bytes) -> Sequence[tuple[int, np.ndarray]]:
        by_bucket: dict[int, set[int]] = {}
        for file in self.live:
            if file.partition == partition:
                found = {self.hash_of(r.key) for r in self.records[file.meta.file_name]}
                by_bucket.setdefault(file.bucket, set()).update(found)
        return [(b, np.array(sorted(h), np.int32)) for b, h in sorted(by_bucket.items())]

    def partition_text(self, partition: bytes) -> str:
        name = self._names.get(partition)
        if name is None:
            name = next(n for n in ["", *map(str, range(100)), *"abcdefgh"] if partition_bytes(n) == partition)
        return f"p={name}" if name else ""

    # -- what key_indexes get ----------------------------------------------------------------------------------------

    def hash_of(self, key: tuple[Any, ...]) -> int:
        return hash_words(encode_row(list(key), [f.type for f in self.key_fields]))

    def batch(self, rows: Sequence[tuple[str, tuple[Any, ...]]]) -> KeyBatch:
        """Keys of rows given as (partition, key values)."""
        names = list(dict.fromkeys(p for p, _ in rows))
        columns = [internal_to_arrow([k[i] for _, k in rows], f.type) for i, f in enumerate(self.key_fields)]
        return KeyBatch(
            tuple(partition_bytes(n) for n in names),
            np.array([names.index(p) for p, _ in rows], np.int32),
            pa.Table.from_arrays(columns, names=[f.name for f in self.key_fields]),
            tuple(f.type for f in self.key_fields),
            np.array([self.hash_of(k) for _, k in rows], np.int32),
        )

    def context(self, options: dict[str, str] | None = None, **kwargs: Any) -> IndexContext:
        store = open_store(str(self.root))
        return IndexContext(
            view=cast(SnapshotTable, self),
            reader=ParquetKeyReader(store, self.key_fields, _no_other_format),
            options=IndexOptions(options or {}),
            pool=LocalRunner(2),
            store=store,
            index_dir=str(self.root.parent / "_index"),
            **kwargs,
        )

    def _sort_key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(v.encode() if isinstance(v, str) else v for v in key)

    def name_of(self, partition: bytes) -> str:
        return next((n for raw, n in self._names.items() if raw == partition), "?")


def _with_id(name: str, arrow_type: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, arrow_type, False, metadata={b"PARQUET:field_id": str(field_id).encode()})


def _no_other_format(file: LiveFile) -> pa.Table:
    raise AssertionError(f"{file.path} is not Parquet")
