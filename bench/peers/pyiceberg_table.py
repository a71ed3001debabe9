"""Iceberg by pyiceberg, its catalog in SQLite."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import In

from bench.peers.base import KEYS, NotSupportedError, Peer, matching


class ThisPeer(Peer):
    """Upserts are its own, which copy the files they touch."""

    def load(self, file: Path) -> None:
        place = {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}"}
        catalog = SqlCatalog("b", **place)
        catalog.create_namespace("b")
        rows = pq.read_table(file)
        self.table = catalog.create_table("b.lineitem", schema=rows.schema)
        self.table.append(rows)

    def upsert(self, file: Path) -> None:
        self.table.upsert(pq.read_table(file), join_cols=list(KEYS))

    def compact(self) -> None:
        raise NotSupportedError("pyiceberg does not compact")

    def batches(self, columns: list[str] | None) -> Iterable[pa.Table | pa.RecordBatch]:
        yield from self.table.scan(selected_fields=tuple(columns or ["*"])).to_arrow_batch_reader()

    def found(self, keys: pa.Table) -> pa.Table:
        wanted = In(KEYS[0], keys.column(KEYS[0]).to_pylist())  # type: ignore[call-arg, arg-type]
        return matching(self.table.scan(wanted).to_arrow(), keys)
