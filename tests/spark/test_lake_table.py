"""A script of Delta Lake's runs on a table of lakeidx with another import; a dictionary says what must come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError
from lakeidx.spark import LakeTable

pytestmark = pytest.mark.spark

#: As written for ``from delta.tables import DeltaTable``.
SCRIPT = """
from pyspark.sql import functions as F

orders = DeltaTable.forPath(spark, path)
orders.update(condition="qty >= 18", set={"qty": "qty + 1"})
orders.update(F.col("name") == "n3", {"name": F.concat(F.col("name"), F.lit("!")), "qty": F.lit(0)})
orders.delete("k = 4")
orders.alias("o").delete(F.col("o.k") == 5)
changes = spark.createDataFrame([(k, f"s{k}", k * 10) for k in (0, 1, 2, 30, 31)], "k BIGINT, name STRING, qty INT")
(
    orders.alias("t")
    .merge(changes.alias("s"), "t.k = s.k")
    .whenMatchedDelete(condition="s.k = 0")
    .whenMatchedUpdate(condition="t.k = 1", set={"qty": "t.qty + s.qty"})
    .whenMatchedUpdateAll()
    .whenNotMatchedInsert(condition=F.col("s.k") == 31, values={"k": "s.k", "name": F.lit("new")})
    .whenNotMatchedInsertAll()
    .whenNotMatchedBySourceUpdate(condition="t.k = 10", set={"name": "'left'"})
    .whenNotMatchedBySourceDelete(condition="t.k = 11")
    .execute()
)
orders.alias("t").merge(changes.alias("s"), F.col("t.k") == F.col("s.k")).whenNotMatchedInsertAll().execute()
count = orders.toDF().count()
"""


def make(folder: Path, **options: str) -> Table:
    fields = [("k", "BIGINT"), ("name", "STRING"), ("qty", "INT")]
    table = Table.create(
        f"{folder}/d.db/t",
        {"fields": [{"name": n, "type": t} for n, t in fields], "primaryKeys": ["k"], "options": options},
    )
    table.upsert([{"k": k, "name": f"n{k}", "qty": k} for k in range(20)])
    return table


@pytest.mark.parametrize("options", [{"bucket": "-1"}, {"bucket": "2", "deletion-vectors.enabled": "true"}])
def test_a_script_of_delta(spark: SparkSession, tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path, **options)
    names: dict[str, Any] = {"DeltaTable": LakeTable, "spark": spark, "path": table.uri}
    exec(SCRIPT, names)
    model: dict[int, tuple[str, int | None]] = {k: (f"n{k}", k if k < 18 else k + 1) for k in range(20)}
    model[3] = ("n3!", 0)
    for gone in (4, 5, 0, 11):
        del model[gone]
    model |= {1: ("n1", 11), 2: ("s2", 20), 31: ("new", None), 30: ("s30", 300), 10: ("left", 10), 0: ("s0", 0)}
    table.compact(full=True)
    found = {r["k"]: (r["name"], r["qty"]) for r in Table.open(table.uri).scan().to_arrow().to_pylist()}
    assert found == model


def test_what_is_refused_writes_nothing(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, bucket="-1")
    orders = LakeTable.forPath(spark, table.uri)
    twice = spark.createDataFrame([(1, "a", 1), (1, "b", 2)], "k BIGINT, name STRING, qty INT").alias("s")
    merge = orders.alias("t").merge(twice, "t.k = s.k")
    with pytest.raises(InvalidInputError, match="a merge needs a clause"):
        merge.execute()
    with pytest.raises(InvalidInputError, match="two rows of the source"):
        merge.whenMatchedUpdateAll().execute()
    with pytest.raises(InvalidInputError, match="no column 'qt'"):
        orders.update(set={"qt": "1"})
    assert orders.delete("k = 99") is None
    assert table.snapshot is not None
    assert table.snapshot.id == 1
    # Another writer between reading and writing: the rows are made again.
    make_again, calls = LakeTable._committed, list[int]()

    def late(self: LakeTable) -> Any:
        frame = make_again(self)
        calls.append(1)
        if len(calls) == 1:
            table.upsert([{"k": 1, "name": "other", "qty": 100}])
        return frame

    monkeypatch.setattr(LakeTable, "_committed", late)
    orders.update(sf.col("k") == 1, {"qty": sf.col("qty") * 2})
    assert len(calls) == 2
    assert table.scan(where="k = 1").to_arrow().to_pylist() == [{"k": 1, "name": "other", "qty": 200}]
