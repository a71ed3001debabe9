"""Delta by delta-rs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.table import TableMerger

from bench.lineitem import plain, streamed
from bench.peers.base import KEYS, NEWER, SET_TO, SUMMED, UPDATED, Peer, matching


class ThisPeer(Peer):
    """Merges copy the files they touch."""

    def load(self, file: Path) -> None:
        write_deltalake(str(self.folder / "table"), streamed(file))
        self.table = DeltaTable(str(self.folder / "table"))

    def _merge(self, file: Path) -> TableMerger:
        on = " AND ".join(f"t.{k} = s.{k}" for k in KEYS)
        return self.table.merge(pq.read_table(file), on, source_alias="s", target_alias="t")

    def upsert(self, file: Path) -> None:
        self._merge(file).when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, file: Path) -> None:
        self._merge(file).when_matched_delete().execute()

    def update(self) -> None:
        self.table.update(updates={SUMMED: SET_TO}, predicate=UPDATED)

    def merge(self, file: Path) -> None:
        merge = self._merge(file).when_matched_update_all(NEWER.format(source="s", target="t"))
        merge.when_not_matched_insert_all().execute()

    def compact(self) -> None:
        self.table.optimize.compact()

    def batches(self, columns: list[str] | None) -> Iterable[pa.Table | pa.RecordBatch]:
        query = QueryBuilder().register("lineitem", self.table)
        return (pa.record_batch(b) for b in query.execute(f"SELECT {', '.join(columns or ['*'])} FROM lineitem"))

    def found(self, keys: pa.Table) -> pa.Table:
        wanted = ", ".join(map(str, keys.column(KEYS[0]).to_pylist()))
        query = QueryBuilder().register("lineitem", self.table)
        answer = query.execute(f"SELECT * FROM lineitem WHERE {KEYS[0]} IN ({wanted})")
        return matching(plain(pa.Table.from_batches(pa.record_batch(b) for b in answer)), keys)
