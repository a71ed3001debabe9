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


def make(folder: Path, options: dict[str, str], *, partitioned: str = "", keys: tuple[str, ...] = ("k",)) -> Table:
    fields = [("k", "BIGINT"), ("name", "STRING"), ("qty", "INT"), ("part", "STRING")]
    table = Table.create(
        f"{folder}/d.db/t",
        {
            "fields": [{"name": n, "type": t} for n, t in fields if n != "part" or partitioned],
            "primaryKeys": list(keys), "partitionKeys": [partitioned] if partitioned else [], "options": options,
        },
    )  # fmt: skip
    table.upsert(
        [{"k": k, "name": f"n{k}", "qty": k} | ({"part": f"p{k % 4}"} if partitioned else {}) for k in range(20)]
    )
    return table


def content(table: Table) -> dict[int, tuple[Any, ...]]:
    table.compact(full=True)
    rows = Table.open(table.uri).scan().to_arrow().to_pylist()
    return {r["k"]: (r["name"], r["qty"]) for r in rows}


@pytest.mark.parametrize(
    "options",
    [
        {"bucket": "-1"},
        {"bucket": "2", "deletion-vectors.enabled": "true"},
        {"bucket": "2", "changelog-producer": "lookup"},
    ],
)
def test_a_script_of_delta(spark: SparkSession, tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path, options)
    names: dict[str, Any] = {"DeltaTable": LakeTable, "spark": spark, "path": table.uri}
    exec(SCRIPT, names)
    model: dict[int, tuple[str, int | None]] = {k: (f"n{k}", k if k < 18 else k + 1) for k in range(20)}
    model[3] = ("n3!", 0)
    for gone in (4, 5, 0, 11):
        del model[gone]
    model |= {1: ("n1", 11), 2: ("s2", 20), 31: ("new", None), 30: ("s30", 300), 10: ("left", 10), 0: ("s0", 0)}
    assert content(table) == model


ON = "t.k = s.k"


@pytest.mark.parametrize(
    ("partitioned", "keys", "bucket"),
    [("", ("k",), "-1"), ("", ("k",), "3"), ("part", ("part", "k"), "-1"), ("part", ("k",), "-1")],
)
def test_verbs_count_what_they_change_in_every_bucket_mode(
    spark: SparkSession, tmp_path: Path, partitioned: str, keys: tuple[str, ...], bucket: str
) -> None:
    table = make(tmp_path, {"bucket": bucket}, partitioned=partitioned, keys=keys)
    orders = LakeTable.forPath(spark, table.uri).alias("t")
    changes = spark.createDataFrame(
        [(k, f"s{k}", f"p{(k or 0) % 4}") for k in (1, 2, 3, 40, None)], "K INT, NAME STRING, PART STRING"
    )
    on = ON + (" AND t.part = s.part" if partitioned else "")
    merge = orders.merge(changes.alias("s"), on).whenMatchedDelete("t.qty = 1")
    merge = merge.whenMatchedUpdate("s.k > 2", {"t.NAME": "s.name", "qty": sf.col("t.qty") + 100})
    values = {"k": "s.k", "name": "s.name", **({"part": "s.part"} if partitioned else {})}
    found = merge.whenNotMatchedInsert("s.k IS NOT NULL", values).execute()
    assert found is not None
    assert (found.inserts, found.updates, found.deletes, found.upserts) == (1, 1, 1, 0)
    found = orders.update("t.qty >= 18", {"qty": "0"})
    assert found is not None
    assert (found.updates, found.upserts) == (3, 0)
    found = orders.delete(sf.col("qty").between(5, 7))
    assert found is not None
    assert found.deletes == 3
    # Of two rows of the source one may do nothing.
    twice = spark.createDataFrame([(8, "x"), (8, "y")], "k INT, name STRING").alias("s")
    found = orders.merge(twice, ON).whenMatchedDelete("s.name = 'y'").execute()
    assert found is not None
    assert found.deletes == 1
    found = orders.merge(changes.where("k = 2").alias("s"), on).whenNotMatchedBySourceDelete("t.k >= 10").execute()
    assert found is not None
    assert found.deletes == 11
    assert content(table) == {
        0: ("n0", 0), 2: ("n2", 2), 3: ("s3", 0), 4: ("n4", 4), 9: ("n9", 9),
    }  # fmt: skip


def test_a_partial_update_table_gets_what_changes(spark: SparkSession, tmp_path: Path) -> None:
    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true", "bucket": "2"}
    table = make(tmp_path, options)
    orders = LakeTable.forPath(spark, table.uri).alias("t")
    orders.update("k < 2", {"qty": "qty + 10"})
    changes = spark.createDataFrame([(2, 5), (3, 6), (30, 7)], "k BIGINT, qty INT").alias("s")
    merge = (
        orders.merge(changes, ON).whenMatchedDelete("s.k = 3").whenMatchedUpdate(set={"name": "concat(t.name, s.qty)"})
    )
    merge.whenNotMatchedInsertAll().execute()
    orders.delete("k > 3 AND k < 30")
    assert content(table) == {0: ("n0", 10), 1: ("n1", 11), 2: ("n25", 2), 30: (None, 7)}
    with pytest.raises(InvalidInputError, match="set name: merge engine partial-update keeps the old value"):
        orders.update(set={"name": "nullif(name, 'n0')"})


def test_only_what_may_change_is_read(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "-1"}, partitioned="part", keys=("part", "k"))
    for file in table.files():
        if file["part"] != "p1":
            Path(file["path"]).write_bytes(b"")
    orders = LakeTable.forPath(spark, table.uri).alias("t")
    source = spark.createDataFrame(
        [("p1", 1, "x"), ("p1", 5, "y"), ("p1", 100, "z")], "part STRING, k INT, name STRING"
    ).alias("s")
    assert orders.update("part = 'p1' AND qty > 16", {"name": "'u'"}) is not None
    assert orders.update((sf.col("t.part") == "p1") & (sf.col("k") == 13), {"name": sf.lit("v")}) is not None
    assert orders.delete("t.part = 'p1' AND length(name) > 99") is None
    # By the key rows are looked up; by another condition the source's values choose files.
    key = (sf.col("t.k") == sf.col("s.k")) & (sf.col("t.part") == sf.col("s.part"))
    found = orders.merge(source, key).whenMatchedUpdate("t.qty < 5", {"name": "s.name"}).execute()
    assert found is not None
    assert (found.inserts, found.updates) == (0, 1)
    found = orders.merge(source, "t.part = s.part AND t.qty = s.k").whenMatchedDelete("s.k = 5").execute()
    assert found is not None
    assert found.deletes == 1
    assert orders.merge(source, "t.qty = s.k AND t.part = 'p1'").whenMatchedDelete("s.k = 7").execute() is None
    assert [table.lookup([{"part": "p1", "k": k}]).column("name")[0].as_py() for k in (1, 5, 9, 13, 17)] == [
        "x", None, "n9", "v", "u",
    ]  # fmt: skip


def test_whole_rows_by_the_key_are_an_upsert(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "-1"})
    orders = LakeTable.forPath(spark, table.uri).alias("t")
    for file in table.files():
        Path(file["path"]).write_bytes(b"")
    changes = spark.createDataFrame([("a", 1, 1), ("b", 99, 2)], "name STRING, k INT, qty INT").alias("s")
    found = orders.merge(changes, ON).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert found is not None
    assert (found.inserts, found.updates) == (1, 1)
    twice = orders.merge(changes.unionAll(changes).alias("s"), ON).whenMatchedUpdateAll().whenNotMatchedInsertAll()
    with pytest.raises(InvalidInputError, match="two rows of the source"):
        twice.execute()


def test_what_is_refused_writes_nothing(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, {"bucket": "-1"})
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

    def late(self: LakeTable, *args: Any) -> Any:
        frame = make_again(self, *args)
        calls.append(1)
        if len(calls) == 1:
            table.upsert([{"k": 1, "name": "other", "qty": 100}])
        return frame

    monkeypatch.setattr(LakeTable, "_committed", late)
    orders.update(sf.col("k") == 1, {"qty": sf.col("qty") * 2})
    assert len(calls) == 2
    assert table.scan(where="k = 1").to_arrow().to_pylist() == [{"k": 1, "name": "other", "qty": 200}]
