"""lakeidx in one process, by its Python interface."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.lineitem import table_spec
from bench.peers.base import KEYS, NEWER, SET_TO, SUMMED, UPDATED, Peer
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

    def delete(self, file: Path) -> None:
        self.table.delete(pq.read_table(file), runner=self.runner)

    def update(self) -> None:
        self.table.update({SUMMED: SET_TO}, where=UPDATED, runner=self.runner)

    def merge(self, file: Path) -> None:
        merge = self.table.merge(pq.read_table(file), on=KEYS)
        merge.when_matched_update_all(NEWER.format(source="source", target="target")).when_not_matched_insert_all()
        merge.execute(runner=self.runner)

    def batches(self, columns: list[str] | None) -> Iterable[pa.Table | pa.RecordBatch]:
        return self.table.scan(columns=columns).batches()

    def found(self, keys: pa.Table) -> pa.Table:
        rows = self.table.lookup(keys)
        return rows.filter(rows.column("_FOUND")).drop_columns(["_FOUND"])
