"""Paimon by pypaimon: fixed buckets, which it can write without a JVM."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pypaimon import CatalogFactory, Schema

from bench.peers.base import KEYS, NotSupportedError, Peer, matching

ROWS_A_BUCKET = 500_000


class ThisPeer(Peer):
    """As many buckets as lakeidx makes."""

    def load(self, file: Path) -> None:
        catalog = CatalogFactory.create({"warehouse": str(self.folder)})
        catalog.create_database("b", True)
        options = {"bucket": str(-(-self.rows // ROWS_A_BUCKET))}
        schema = Schema.from_pyarrow_schema(pq.read_schema(file), primary_keys=list(KEYS), options=options)
        catalog.create_table("b.lineitem", schema, False)
        self.table = catalog.get_table("b.lineitem")
        self.upsert(file)

    def upsert(self, file: Path) -> None:
        builder = self.table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        try:
            write.write_arrow(pq.read_table(file))
            commit.commit(write.prepare_commit())
        finally:
            write.close()
            commit.close()

    def compact(self) -> None:
        raise NotSupportedError("pypaimon does not compact")

    def batches(self, columns: list[str] | None) -> Iterable[pa.Table | pa.RecordBatch]:
        reading = self.table.new_read_builder()
        if columns:
            reading = reading.with_projection(columns)
        yield from reading.new_read().to_arrow_batch_reader(reading.new_scan().plan().splits())

    def found(self, keys: pa.Table) -> pa.Table:
        reading = self.table.new_read_builder()
        predicates = reading.new_predicate_builder()
        reading = reading.with_filter(predicates.is_in(KEYS[0], keys.column(KEYS[0]).to_pylist()))
        return matching(reading.new_read().to_arrow(reading.new_scan().plan().splits()), keys)
