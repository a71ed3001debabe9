"""A table with keys of running numbers, and a batch of them: what benchmarks of key indexes are timed on.

Buckets have one data file each, written by lakeidx's writer with bloom filters in the footers, and a HASH index file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.api.table import Table
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.format.data_file import EMPTY_ROW, FileSource
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.key_index.locations import KeyBatch
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import IndexContext
from lakeidx.key_index.registry import data_file_footer
from lakeidx.key_index.table_view import key_batch, make_tag_context
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.index_files import write_hash_index
from lakeidx.tasks.runner import LocalRunner

FPP = 1e-6
#: Makes the column of keys of running numbers.
KeysOf = Callable[[npt.NDArray[np.int64]], pa.Array]


@dataclass(frozen=True, slots=True)
class KeyedTable:
    """A table and a batch.

    name        of the case
    bucket_of   int32[n] where each key of the batch is, -1 = nowhere
    held        of each bucket the hashes of its keys, int32[m] ascending, each once
    """

    name: str
    rows: int
    handle: Table
    batch: KeyBatch
    bucket_of: npt.NDArray[np.int32]
    held: tuple[npt.NDArray[np.int32], ...]

    @property
    def index_folder(self) -> Path:
        """Where an index keeps what is its own."""
        return Path(f"{self.handle.paths.root}-index")

    def context(self, options: Mapping[str, str], pool: LocalRunner | None = None) -> IndexContext:
        """Return a fresh view of the table: nothing cached from an earlier round."""
        metadata = Table.open(self.handle.paths.root).metadata
        found = make_tag_context(metadata, metadata.latest_snapshot(), index_dir=str(self.index_folder))
        own = IndexOptions({**metadata.latest_schema().options, **options})
        return dataclasses.replace(found, options=own, pool=pool or found.pool)

    def fresh_batch(self) -> KeyBatch:
        """Return the batch without anything that an earlier round has worked out."""
        b = self.batch
        return KeyBatch(b.partitions, b.partition, b.keys, b.key_types, b.hashes)

    def check(self, found: npt.NDArray[np.int32], kind: str) -> None:
        """Exit unless every bucket is the true one, or that of a look-alike where the index type cannot tell."""
        if wrong := count_wrong(found, self.bucket_of, self.batch.hashes, self.held, kind):
            raise SystemExit(f"{kind}, {self.name}: {wrong} of {len(self.batch)} locations are wrong")


def write_keyed_table(
    uri: str,
    name: str,
    *,
    rows: int,
    buckets: int,
    batch: npt.NDArray[np.int64],
    keys_of: KeysOf,
    key_type: str = "STRING NOT NULL",
    options: Mapping[str, str] | None = None,
) -> KeyedTable:
    """Write and commit the table; its batch has the keys of some numbers, those from `rows` on new."""
    per_bucket = str(-(-rows // buckets))
    handle = Table.create(
        uri,
        {
            "fields": [{"name": "id", "type": key_type}, {"name": "v", "type": "INT"}],
            "primaryKeys": ["id"],
            "partitionKeys": [],
            "options": {
                "bucket": "-1",
                "target-file-size": "1 gb",
                "file.block-size": "8 mb",
                "index.type": "bloom",
                "hoodie.index.bloom.num_entries": per_bucket,
                "hoodie.index.bloom.fpp": f"{FPP:f}",
                "hoodie.bloom.index.filter.dynamic.max.entries": per_bucket,
                **(options or {}),
            },
        },
    )
    schema, names = handle.metadata.latest_schema(), NewFileNames()
    entries, index, held = [], [], []
    edges = [rows * b // buckets for b in range(buckets + 1)]
    for bucket in range(buckets):
        table = pa.table({"id": keys_of(np.arange(edges[bucket], edges[bucket + 1]))}).sort_by("id")
        n = table.num_rows
        kv = pa.table(
            [np.arange(n), np.zeros(n, np.int8), table.column("id"), pa.array(np.arange(n, dtype=np.int32))],
            names=["_SEQUENCE_NUMBER", "_VALUE_KIND", "id", "v"],
        )
        place = handle.paths.bucket_dir({}, bucket)
        files = DataFileWriter(schema, store=handle.store, bucket_dir=place, names=names, level=5,
            file_source=FileSource.COMPACT, footer_metadata=data_file_footer(schema),
        ).write_all([kv])  # fmt: skip
        entries += [
            ManifestEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=bucket, total_buckets=-1, file=f)
            for f in files
        ]
        hashes = np.unique(hash_columns([table.column("id")], schema.key_types))
        held.append(hashes)
        index.append(write_hash_index(handle.metadata, schema, EMPTY_ROW, bucket, hashes, names))
    changes = TableChanges(append=tuple(entries), append_index=tuple(index))
    commit_changes(handle.metadata, CommitRequest(commit_user="bench", commit_identifier=1, changes=changes))
    bucket_of = np.where(batch < rows, np.searchsorted(edges[1:], batch, side="right"), -1).astype(np.int32)
    return KeyedTable(name, rows, handle, batch_of(handle, keys_of(batch)), bucket_of, tuple(held))


def batch_of(handle: Table, keys: pa.Array) -> KeyBatch:
    """Return a batch of keys of the table."""
    partition = np.zeros(len(keys), np.int32)
    return key_batch(pa.table({"id": keys}), handle.metadata.latest_schema(), ((EMPTY_ROW,), partition))


def id_texts(values: npt.NDArray[np.int64]) -> pa.Array:
    """Return texts of 18 bytes: ``id-`` and 15 digits."""
    digits = (values[:, None] // 10 ** np.arange(14, -1, -1, dtype=np.int64)) % 10 + ord("0")
    body = np.empty((len(values), 18), np.uint8)
    body[:, :3] = np.frombuffer(b"id-", np.uint8)
    body[:, 3:] = digits
    offsets = pa.py_buffer((np.arange(len(values) + 1, dtype=np.int32) * 18).tobytes())
    return pa.Array.from_buffers(pa.string(), len(values), [None, offsets, pa.py_buffer(body.tobytes())])


def mixed(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return numbers that are spread over all 64 bits, other ones for each."""
    spread = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    spread ^= spread >> np.uint64(29)
    return spread * np.uint64(0xBF58476D1CE4E5B9)


def count_wrong(
    found: npt.NDArray[np.int32],
    bucket_of: npt.NDArray[np.int32],
    hashes: npt.NDArray[np.int32],
    held: Sequence[npt.NDArray[np.int32]],
    kind: str,
) -> int:
    """Count locations that are wrong.

    A key without a place may be in the bucket of a key of the table that has its hash: types by hash, and the key state, do not
    look further. Of known keys only type `hash` takes one for another, which here are in two buckets, as Java never has them.

    found, bucket_of   int32[n] said and true buckets, -1 = nowhere
    hashes             int32[n] of the keys
    held               of each bucket the hashes of its keys, ascending
    kind               index type
    """
    rows = np.flatnonzero(found != bucket_of)
    if kind == "hash":
        may = np.ones(len(rows), np.bool_)
    else:
        may = (bucket_of[rows] < 0) & kind.startswith(("state", "inmemory"))
    alike = np.zeros(len(rows), np.bool_)
    for bucket, there in enumerate(held):
        mine = np.flatnonzero(found[rows] == bucket)
        alike[mine] = np.isin(hashes[rows[mine]], there)
    return int((~(may & alike)).sum())
