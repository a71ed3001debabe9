"""DuckDB: a table with a primary key in a database file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from bench.peers.base import KEYS, NEWER, SET_TO, SUMMED, UPDATED, Peer


class ThisPeer(Peer):
    """Two threads; every step ends with a checkpoint, so that the rows are in the file."""

    def load(self, file: Path) -> None:
        self.base: Any = duckdb.connect(str(self.folder / "table.duckdb"), config={"threads": 2})
        self.base.execute(f"CREATE TABLE lineitem AS FROM '{file}' LIMIT 0")
        self.base.execute(f"ALTER TABLE lineitem ADD PRIMARY KEY ({', '.join(KEYS)})")
        self.base.execute(f"INSERT INTO lineitem FROM '{file}'")
        self.base.execute("CHECKPOINT")

    def upsert(self, file: Path) -> None:
        self.base.execute(f"INSERT OR REPLACE INTO lineitem FROM '{file}'")
        self.base.execute("CHECKPOINT")

    def delete(self, file: Path) -> None:
        on = " AND ".join(f"lineitem.{k} = s.{k}" for k in KEYS)
        self.base.execute(f"DELETE FROM lineitem USING '{file}' s WHERE {on}")
        self.base.execute("CHECKPOINT")

    def update(self) -> None:
        self.base.execute(f"UPDATE lineitem SET {SUMMED} = {SET_TO} WHERE {UPDATED}")
        self.base.execute("CHECKPOINT")

    def merge(self, file: Path) -> None:
        on = " AND ".join(f"lineitem.{k} = s.{k}" for k in KEYS)
        self.base.execute(
            f"MERGE INTO lineitem USING '{file}' s ON ({on}) WHEN MATCHED AND {NEWER.format(source='s', target='lineitem')} "
            "THEN UPDATE WHEN NOT MATCHED THEN INSERT"
        )
        self.base.execute("CHECKPOINT")

    def batches(self, columns: list[str] | None) -> Iterable[pa.Table | pa.RecordBatch]:
        yield from self.base.execute(f"SELECT {', '.join(columns or ['*'])} FROM lineitem").to_arrow_reader(131_072)

    def found(self, keys: pa.Table) -> pa.Table:
        self.base.register("wanted", keys)
        rows: pa.Table = self.base.execute(
            f"SELECT * FROM lineitem SEMI JOIN wanted USING ({', '.join(KEYS)})"
        ).to_arrow_table()
        return rows
