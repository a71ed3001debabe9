"""lakeidx in one process, by its Python interface."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.lineitem import table_spec
from bench.peers.base import Peer
from lakeidx import Table
from lakeidx.tasks.runner import RunnerLike


class ThisPeer(Peer):
    """Dynamic buckets, as in the other benchmarks."""

    runner: RunnerLike = None

    def load(self, file: Path) -> None:
        self.table = Table.create(f"{self.folder}/b.db/lineitem", table_spec(pq.read_schema(file)))
        self.upsert(file)

    def upsert(self, file: Path) -> None:
        self.table.upsert_files([str(file)], strict=True, runner=self.runner)

    def compact(self) -> None:
        self.table.compact(full=True, runner=self.runner)

    def batches(self, columns: list[str] | None) -> Iterable[pa.Table | pa.RecordBatch]:
        return self.table.scan(columns=columns).batches()

    def found(self, keys: pa.Table) -> pa.Table:
        rows = self.table.lookup(keys)
        return rows.filter(rows.column("_FOUND")).drop_columns(["_FOUND"])
