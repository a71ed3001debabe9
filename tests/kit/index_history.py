"""One history of batches, for tables of every index type, and the dictionary that says what they must hold."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pyarrow as pa

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.key_index.hbase.client import HBaseLocations
from lakeidx.key_index.options import IndexOptions
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.index_files import read_hash_index
from lakeidx.table.view import decode_partition_dict, load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import SPEC, make_table, rows
from tests.kit.upserts import upsert_table

#: Partition, key, value, kind.
Row = tuple[int, int, str, str]
#: Key (over partitions: None for the partition) -> partition, value.
Model = dict[tuple[int | None, int], tuple[int, str]]

#: Index types that look for a key in its own partition, by name -> options.
LOCAL_TYPES: Mapping[str, Mapping[str, str]] = {
    "hash": {},
    "bucket": {"index.type": "bucket", "hoodie.bucket.index.num.buckets": "3"},
    "bucket ring": {"index.type": "bucket", "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
                    "hoodie.bucket.index.num.buckets": "3"},
    "fixed buckets": {"index.type": "bucket", "bucket": "2"},
    "bloom": {"index.type": "bloom", "hoodie.index.bloom.num_entries": "20", "hoodie.index.bloom.fpp": "0.1",
              "hoodie.bloom.index.filter.type": "SIMPLE"},
    "bloom cache": {"index.type": "bloom", "hoodie.index.bloom.num_entries": "20", "hoodie.bloom.index.use.metadata": "true"},
    "simple": {"index.type": "simple"},
    "inmemory": {"index.type": "inmemory", "index.global.enabled": "false"},
    "state": {"index.type": "state", "index.global.enabled": "false"},
}  # fmt: skip
#: Index types that look for it in all partitions, and move it; the cross-partition mode does the same.
GLOBAL_TYPES: Mapping[str, Mapping[str, str]] = {
    "global-bloom": {"index.type": "global-bloom", "hoodie.index.bloom.num_entries": "20", "hoodie.index.bloom.fpp": "0.1"},
    "global-simple": {"index.type": "global-simple"},
    "inmemory": {"index.type": "inmemory"},
    "state": {"index.type": "state"},
    "hbase": {"index.type": "hbase", "hoodie.index.hbase.table": "t", "hoodie.hbase.index.update.partition.path": "true",
              "index.hbase.max-requests-per-second": "1000000"},
    "cross-partition": {},
}  # fmt: skip
#: Types whose buckets are those of the PartitionIndex rules, so that they are the same as those of `hash`.
SAME_BUCKETS = ("hash", "bloom", "bloom cache", "simple", "inmemory", "state")


def options_of(name: str, over_partitions: bool) -> dict[str, str]:
    """Return the options of an index type."""
    return dict((GLOBAL_TYPES if over_partitions else LOCAL_TYPES)[name])


@contextmanager
def hbase_stand_in(locations: HBaseLocations) -> Iterator[None]:
    """Make index type hbase use a table of locations without a server."""

    def connect(options: IndexOptions, *, connections: int) -> HBaseLocations:
        return locations

    with mock.patch("lakeidx.key_index.hbase.hbase_index.HBaseLocations", connect):
        yield


def apply(model: Model, batch: Sequence[Row], *, over_partitions: bool) -> None:
    """Apply a batch to the dictionary, row by row."""
    for p, k, v, kind in batch:
        key = (None if over_partitions else p, k)
        if kind in ("-D", "-U"):
            model.pop(key, None)
        else:
            model[key] = (p, v)


@dataclass
class IndexedTable:
    """A table of one index type."""

    name: str
    table: Table

    @classmethod
    def make(cls, folder: Path, name: str, options: Mapping[str, str]) -> IndexedTable:
        """Make a new table."""
        spec = {**SPEC, "primaryKeys": ["k"]} if name == "cross-partition" else SPEC
        more = {"dynamic-bucket.target-row-num": "5", "index.threads": "1"}
        return cls(name, make_table(folder / name.replace(" ", "-"), options={**more, **options}, spec=spec))

    def upsert(self, batch: Sequence[Row], batch_id: str) -> None:
        """Run a batch, by a process that knows nothing of those before."""
        self.table = Table.open(self.table.uri)
        context = make_context(self.table.metadata, batch_id, runner=LocalRunner(1))
        upsert_table(context, rows([(p, k, v) for p, k, v, _ in batch], [kind for *_, kind in batch]))

    def compact(self) -> None:
        """Compact everything, so that deletes vanish."""
        run_compaction(self.table.metadata, LocalRunner(1), full=True)

    def content(self) -> dict[tuple[int, int], str]:
        """Return the rows as (p, k) -> v."""
        found = Table.open(self.table.uri).scan().to_arrow().to_pylist()
        out = {(r["p"], r["k"]): r["v"] for r in found}
        assert len(out) == len(found), f"{self.name}: a key came twice"
        return out

    def buckets(self) -> dict[tuple[int, int], int]:
        """Return (p, k) -> bucket of every key that lives."""
        scan = Table.open(self.table.uri).scan()
        out = {}
        for place in scan.plan.buckets:
            for part in scan.read_bucket(place):
                out.update({(r["p"], r["k"]): place.bucket for r in part.to_pylist()})
        return out

    def check(self, model: Model) -> None:
        """Check that rows are the dictionary's, and that the hash index has every key's hash, in the bucket where the
        key lives and in no other.
        """
        wanted = {(p, k): v for (_, k), (p, v) in model.items()}
        assert self.content() == wanted, self.name
        if self.table.schema.bucket != -1 or self.name == "cross-partition":
            return
        where: dict[tuple[int, int], int] = {}
        metadata = Table.open(self.table.uri).metadata
        for partition, files in load_view(metadata, metadata.latest_snapshot()).hash_index().items():
            values = decode_partition_dict(partition, self.table.schema)
            for bucket, entry in files.items():
                for h in read_hash_index(metadata, self.table.schema, entry).tolist():
                    assert where.setdefault((values["p"], h), bucket) == bucket, f"{self.name}: a hash in two buckets"
        living = self.buckets()
        keys = list(living)
        column = pa.array([k for _, k in keys], pa.int64())
        for (p, k), h in zip(keys, hash_columns([column], self.table.schema.key_types).tolist(), strict=True):
            assert where[p, h] == living[p, k], f"{self.name}: key {k}"


def fixed_history(seed: int, batches: int = 6, size: int = 40) -> list[list[Row]]:
    """Run a history that is the same for every run."""
    r = random.Random(seed)
    kinds = ("+I", "+U", "+U", "-D")
    return [
        [(r.randrange(3), r.randrange(50), f"{b}-{i}", r.choice(kinds)) for i in range(size)] for b in range(batches)
    ]
