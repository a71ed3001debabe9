"""Random predicates of every type handed down by Spark's door, `read_table(where=...)`, against DuckDB over the same rows.

Spark needs a second to plan each; `tests/property/test_predicates_at_doors.py` asks what its workers run thousands of them.
"""

from __future__ import annotations

import random
from functools import reduce
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakeidx.spark import read_table
from tests.kit.predicates_at_doors import SEED, TABLES, Kind, Maker, make_table
from tests.kit.share import WHOLE

pytestmark = pytest.mark.spark
#: Frames of one job.
_AT_ONCE = 12


@pytest.mark.share(0.1)
@pytest.mark.parametrize(("kind", "form"), TABLES, ids=[f"{k.type}-{form}" for k, form in TABLES])
def test_spark_loses_and_adds_no_row(spark: SparkSession, tmp_path: Path, kind: Kind, form: str) -> None:
    table, rows = make_table(tmp_path, kind, form)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("arrow_rows", rows)
    connection.execute("CREATE TABLE model AS SELECT * FROM arrow_rows")
    maker = Maker(kind, rows.schema.field("v").type, random.Random(f"{SEED}Spark {kind.type}{form}"))
    for _ in range(4 if WHOLE else 1):
        cases = [maker.case() for _ in range(_AT_ONCE)]
        frames = [
            read_table(spark, table.uri, columns=["id"], where=case.sql[0]).selectExpr(f"{n} AS n", "id")
            for n, case in enumerate(cases)
        ]
        found: list[list[int]] = [[] for _ in cases]
        for n, i in reduce(DataFrame.unionAll, frames).collect():
            found[n].append(i)
        for case, ids in zip(cases, found, strict=True):
            wanted = connection.execute(f"SELECT id FROM model WHERE {case.sql[2]} ORDER BY id").fetchall()
            assert sorted(ids) == [i for (i,) in wanted], case.sql[0]
