"""`lakeidx.spark.sql`: the rows of ``spark.sql``, and what each table was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError
from lakeidx.spark import create, read_table, sql, upsert

pytestmark = pytest.mark.spark
#: Statements over `o` and `p`; each gives what Spark gives.
SAME = [
    "SELECT * FROM o WHERE id = 5",
    "SELECT ID, o.V FROM o WHERE O.Id >= 3 AND NOT (v IS NULL)",
    "SELECT id FROM o WHERE day = '2026-11-01' OR total = 2.50",
    "SELECT id FROM o WHERE total = 2.505 OR total > 3",
    "SELECT id FROM o WHERE id < 2.5 AND id > '1'",
    "SELECT id FROM o WHERE day BETWEEN DATE '2026-11-01' AND '2026-11-02'",
    "SELECT id FROM o WHERE id IN (1, 2, -3) AND v <> 'it''s' AND v != 'a\\tb'",
    "SELECT id FROM o WHERE id = 99999999999999999999 OR id = 1",
    "SELECT count(*) FROM o",
    "SELECT count(*), '{braces}' FROM o a WHERE a.id > 3",
    "SELECT a.id, b.v FROM o a LEFT JOIN p b ON a.id = b.id WHERE b.v IS NULL",
    "SELECT a.id, b.v FROM o a LEFT JOIN p b ON a.id = b.id WHERE a.id > 2 AND b.id = 4",
    "SELECT a.id, b.id FROM o a FULL OUTER JOIN p b ON a.id = b.id WHERE a.id IS NULL OR a.id < 3",
    "SELECT o.id FROM o RIGHT JOIN p ON o.id = p.id WHERE o.id IS NULL",
    "SELECT id, o.day FROM o JOIN p USING (id) WHERE id > 2",
    "SELECT * FROM o NATURAL JOIN (SELECT id FROM p)",
    "SELECT o.id FROM o LEFT ANTI JOIN p ON o.id = p.id WHERE o.id > 1",
    "SELECT id FROM o WHERE id IN (SELECT id FROM p WHERE v = 'x4') OR id = 0",
    "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM p WHERE p.id = o.id AND o.id > 3)",
    "WITH o AS (SELECT id + 100 id FROM p WHERE id < 4) SELECT id FROM o WHERE id > 100",
    "SELECT id FROM o WHERE id < 2 UNION ALL SELECT id FROM p WHERE id > 5 ORDER BY id LIMIT 3",
    "SELECT o.id, tag FROM o LATERAL VIEW explode(array('a', 'b')) t AS tag WHERE tag = 'a' AND o.id = 1",
    "SELECT day, count(*) n FROM o GROUP BY day HAVING n > 1 ORDER BY 1",
    "SELECT * EXCEPT (v) FROM o WHERE v = 'x1'",
    "SELECT o.* FROM o, p WHERE o.id = p.id AND o.id = 3",
    "SELECT max(s.id) FROM (SELECT * FROM o WHERE id < 4) s WHERE s.id > 1",
    "SELECT * FROM o PIVOT (count(*) FOR id IN (1, 2))",
    "SELECT id FROM o TABLESAMPLE (100 PERCENT) WHERE id = 1",
]  # fmt: skip


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    rows = spark.sql("""SELECT id, date'2026-11-01' + cast(id % 3 AS INT) day, concat('x', nullif(id, 6)) v,
        cast(id AS DECIMAL(10, 2)) + 0.5 total FROM range(8)""")
    create(rows, f"{tmp_path}/d.db/o", primary_key=["id"], options={"bucket": "1"}, name="o")
    create(rows.where("id > 2"), f"{tmp_path}/d.db/p", primary_key=["id"], options={"bucket": "1"}, name="p")
    yield f"{tmp_path}/d.db/o"
    spark.sql("DROP TABLE o")
    spark.sql("DROP TABLE p")


def reads(frame: DataFrame) -> list[str]:
    """What `explain` says of the tables of lakeidx, in the plan that Spark has checked."""
    with redirect_stdout(StringIO()) as said:
        frame.explain(True)
    checked = said.getvalue().partition("== Analyzed")[2].partition("== Optimized")[0]
    return re.findall(r"`lakeidx reads (.*)`", checked)


def test_the_rows_are_those_of_spark(spark: SparkSession, path: str) -> None:
    for query in SAME:
        found, expected = sql(spark, query), spark.sql(query)
        assert found.columns == expected.columns, query
        assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect())), query


def test_explain_says_what_is_read(spark: SparkSession, path: str) -> None:
    for query, said in [
        (SAME[0], ['all columns; rows where ("id" = 5)']),
        ("SELECT sum(total) FROM o WHERE day = '2026-11-01' AND length(v) = 2",
         ["""columns day, v, total; rows where ("day" = '2026-11-01')"""]),
        ("SELECT count(*) FROM o", ["columns id; all rows"]),
        ("SELECT a.id FROM o a LEFT JOIN p b ON a.id = b.id WHERE a.id > 2 AND b.id = 4",
         ['columns id; rows where ("id" > 2)', "columns id; all rows"]),
        ("SELECT id FROM o WHERE total = 2.505", ["columns id, total; all rows"]),
    ]:  # fmt: skip
        assert reads(sql(spark, query)) == said, query
    assert reads(read_table(spark, path, columns=["id"], where="id < 5")) == ["columns id; rows where id < 5"]
    assert reads(read_table(spark, path)) == ["all columns; all rows"]


def test_paths_and_times(spark: SparkSession, path: str) -> None:
    first = Table.open(path).snapshots()[0]["time"]
    upsert(spark.sql("SELECT 50L id, date'2026-11-09' day, 'y' v, 1.00 total"), path)
    for name in ("o", f"lakeidx.`{path}`"):
        for version, rows in (("", 9), ("VERSION AS OF 1", 8), (f"TIMESTAMP AS OF '{first}'", 8)):
            found = sql(spark, f"SELECT count(*) n FROM {name} {version} WHERE id >= 0")
            assert [r.n for r in found.collect()] == [rows]
    assert [r.id for r in sql(spark, f"SELECT o.id FROM lakeidx.`{path}` WHERE o.id = 50").collect()] == [50]


def test_other_names_are_sparks(spark: SparkSession, path: str) -> None:
    spark.sql(f"CREATE TABLE narrowed USING lakeidx OPTIONS (path '{path}', where 'id < 3')")
    spark.sql(f"CREATE TEMPORARY VIEW fewer USING lakeidx OPTIONS (path '{path}', where 'id < 2')")
    spark.sql("ALTER TABLE p ADD COLUMN more INT")
    try:
        for name, rows in (("narrowed", 3), ("fewer", 2), ("range(4)", 4)):
            assert sql(spark, f"SELECT id FROM {name} WHERE id >= 0").count() == rows
        assert sql(spark, "SELECT more FROM p").distinct().collect() == [(None,)]
    finally:
        spark.sql("DROP TABLE narrowed")
        spark.sql("DROP VIEW fewer")


def test_what_is_no_select_is_refused(spark: SparkSession) -> None:
    for query, says in [
        ("ANALYZE TABLE o COMPUTE STATISTICS", "takes SELECT, INSERT"),
        ("DROP TABLE o", "a table is dropped by its path.* spark.sql drops names"),
        ("DROP VIEW o", "a table is dropped by its path"),
        ("SELECT 1; SELECT 2", "more than one|cannot read"),
        ("SELECT FROM WHERE (", "cannot read the statement"),
        ("", "cannot read|takes SELECT"),
    ]:
        with pytest.raises(InvalidInputError, match=says) as raised:
            sql(spark, query)
        assert "\n" not in str(raised.value)
