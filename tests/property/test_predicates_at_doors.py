"""Random predicates of every type through every door that hands filters down, against engines over the same rows in memory.

The judge is DuckDB on a table of its own, which compares by value (NaN equal to NaN and greatest); CHAR is padded there first, for
lakeidx compares it so, while engines behind a door see the text that is stored. What a door hands down may never lose a row.
Of Spark, the source that it hands to its workers is asked here, in this process: a job a predicate would take days;
`tests/spark/test_predicates.py` asks by jobs.
"""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.dataset import TableDataset
from tests.kit.predicates_at_doors import PREDICATES, SEED, TABLES, Kind, Maker, make_table

duckdb = pytest.importorskip("duckdb")
polars = pytest.importorskip("polars")

from lakeidx import duckdb as lake_duckdb  # noqa: E402
from lakeidx import polars as lake_polars  # noqa: E402
from lakeidx.spark.datasource import LakeIdxDataSource  # noqa: E402

pytestmark = pytest.mark.slow


def _ids(rows: Any) -> list[int]:
    return sorted(rows.column("id").to_pylist())


def _read_by_spark(uri: str, where: str) -> list[int]:
    """Read as Spark does: a pickle of the source plans, and its partitions are read, each by another pickle of the reader."""
    source = pickle.loads(pickle.dumps(LakeIdxDataSource({"path": uri, "columns": "id", "where": where})))
    reader = source.reader(source.schema())
    parts = [pickle.loads(pickle.dumps((reader, p))) for p in reader.partitions()]
    return sorted(i for again, part in parts for batch in again.read(part) for i in batch.column(0).to_pylist())


@pytest.mark.share(0.4)
@pytest.mark.parametrize(("kind", "form"), TABLES, ids=[f"{k.type}-{form}" for k, form in TABLES])
def test_no_door_loses_or_adds_a_row(tmp_path: Path, kind: Kind, form: str) -> None:
    table, rows = make_table(tmp_path, kind, form)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("arrow_rows", rows)
    connection.execute("CREATE TABLE model AS SELECT * FROM arrow_rows")
    lake_duckdb.register(connection, "door", table)
    frame, lazy, dataset = polars.DataFrame(rows), lake_polars.scan(table), TableDataset(table)
    maker = Maker(kind, rows.schema.field("v").type, random.Random(f"{SEED}{kind.type}{form}"))

    def asked(source: str, condition: str) -> list[int]:
        return [r[0] for r in connection.execute(f"SELECT id FROM {source} WHERE {condition} ORDER BY id").fetchall()]

    for _ in range(PREDICATES):
        case = maker.case()
        where, duck, padded = case.sql
        assert _ids(table.scan(where=where).to_arrow()) == asked("model", padded), where
        assert _read_by_spark(table.uri, where) == asked("model", padded), where
        assert asked("door", duck) == asked("model", duck), duck
        if case.arrow is not None:
            assert _ids(dataset.scanner(filter=case.arrow).to_table()) == _ids(rows.filter(case.arrow)), str(case.arrow)
        if case.polars is not None:
            found = lazy.filter(case.polars).collect()["id"].sort().to_list()
            assert found == frame.filter(case.polars)["id"].sort().to_list(), str(case.polars)
