"""The IO manager and the resources: every write mode, every form of rows, partitions, time travel, retries; no daemon.

Dagster reads the annotations of assets when they are defined, so they are real types here, not postponed texts.
"""

from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakeidx
from lakeidx.dagster import LakeIdxCatalog, LakeIdxIOManager, LakeIdxTable
from tests.dagster.pipelines import QUIET

pytestmark = pytest.mark.dagster
KEYED = {"primary_keys": ["id"], "options": {"bucket": 1}}


def rows(*ids: int, v: str = "old") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([v] * len(ids), pa.string())})


def asset(name: str, value: Any, metadata: dict[str, Any], **more: Any) -> dg.AssetsDefinition:
    """An asset in database ``d`` that returns a value, or what a function returns."""

    @dg.asset(name=name, key_prefix="d", metadata=metadata, **more)
    def made(context: dg.AssetExecutionContext) -> Any:
        return value(context) if callable(value) else value

    found: dg.AssetsDefinition = made
    return found


class Lake:
    """A warehouse, and a Dagster instance."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = lakeidx.Warehouse(str(folder / "wh"))
        self.instance = dg.DagsterInstance.ephemeral()

    def run(self, *assets: Any, ok: bool = True, **more: Any) -> dg.ExecuteInProcessResult:
        result = dg.materialize(
            list(assets),
            resources={"io_manager": LakeIdxIOManager(warehouse=self.warehouse.uri)},
            instance=self.instance,
            run_config=QUIET,
            raise_on_error=False,
            **more,
        )
        assert result.success is ok, "" if result.success else failure(result)
        return result

    def content(self, name: str = "d.t") -> list[tuple[Any, ...]]:
        return sorted(tuple(r.values()) for r in self.warehouse.table(name).scan().to_arrow().to_pylist())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def failure(result: dg.ExecuteInProcessResult) -> str:
    """What the failed step says."""
    event, *_ = [e for e in result.all_events if e.is_step_failure]
    return str(event.step_failure_data.error_display_string)


def written(result: dg.ExecuteInProcessResult) -> tuple[dict[str, Any], str | None]:
    """Metadata and data version of the materialization."""
    (event,) = result.get_asset_materialization_events()
    found = event.materialization
    return {k: v.value for k, v in found.metadata.items()}, (found.tags or {}).get("dagster/data_version")


def test_each_write_mode(lake: Lake) -> None:
    metadata, version = written(lake.run(asset("t", rows(1, 2), KEYED)))
    table = lake.warehouse.table("d.t")
    assert table.schema.primary_keys == ("id",)
    assert table.snapshot is not None
    assert version == table.snapshot.identity
    assert (metadata["dagster/table_name"], metadata["dagster/uri"]) == ("d.t", table.uri)
    assert [(c.name, c.type) for c in metadata["dagster/column_schema"].columns] == [("id", "BIGINT"), ("v", "STRING")]
    assert (metadata["lakeidx/snapshot_id"], metadata["lakeidx/upserts"]) == (1, 2)
    assert metadata["lakeidx/write_mode"] == "upsert"
    lake.run(asset("t", rows(2, 3, v="new"), {"write_mode": "upsert"}))
    assert lake.content() == [(1, "old"), (2, "new"), (3, "new")]
    lake.run(asset("t", [{"id": 1}, {"id": 7}], {"write_mode": "delete"}))
    assert lake.content() == [(2, "new"), (3, "new")]
    lake.run(asset("t", rows(9), {"write_mode": "overwrite"}))
    assert lake.content() == [(9, "old")]
    for _ in range(2):
        lake.run(asset("log", rows(1), {"write_mode": "append", "table": "logs.log"}))
    assert lake.content("logs.log") == [(1, "old"), (1, "old")]


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({}, "say write_mode append or overwrite"),
        ({"write_mode": "upsert"}, "needs a table with a primary key"),
        ({**KEYED, "write_mode": "append"}, "append is for tables without primary key; use upsert"),
        ({"write_mode": "merge"}, "metadata of d/t: write_mode: Input should be 'append', 'upsert', 'overwrite' or"),
    ],
)
def test_a_mode_that_does_not_fit_is_refused(lake: Lake, metadata: dict[str, Any], said: str) -> None:
    assert said in failure(lake.run(asset("t", rows(1), metadata), ok=False))


def test_rows_in_every_form_are_written_and_read(lake: Lake) -> None:
    forms: dict[str, Any] = {
        "arrow": rows(1),
        "pandas": pd.DataFrame({"id": [1], "v": ["old"]}),
        "polars": pl.DataFrame({"id": [1], "v": ["old"]}),
        "lazy": pl.LazyFrame({"id": [1], "v": ["old"]}),
        "duckdb": duckdb.sql("SELECT 1::BIGINT AS id, 'old' AS v"),
    }
    seen: dict[str, Any] = {}

    @dg.asset(ins={n: dg.AssetIn(key=["d", n]) for n in forms})
    def reader(
        arrow: pa.RecordBatchReader, pandas: pd.DataFrame, polars: pl.DataFrame, lazy: pl.LazyFrame,
        duckdb: duckdb.DuckDBPyRelation,
    ) -> None:  # fmt: skip
        seen.update(arrow=arrow.read_all().to_pylist(), pandas=pandas.to_dict("records"), polars=polars.to_dicts())
        seen.update(lazy=lazy.collect().to_dicts(), duckdb=duckdb.to_arrow_table().to_pylist())

    @dg.asset(ins={"arrow": dg.AssetIn(key=["d", "arrow"])})
    def handle(arrow: lakeidx.Table) -> None:
        seen["table"] = arrow.scan().to_arrow().to_pylist()

    lake.run(*(asset(n, v, KEYED) for n, v in forms.items()), reader, handle)
    assert seen == {name: [{"id": 1, "v": "old"}] for name in (*forms, "table")}


def test_an_input_has_columns_rows_and_a_state(lake: Lake) -> None:
    t = asset("t", rows(1, 2), KEYED)
    _, first = written(lake.run(t))
    lake.warehouse.table("d.t").upsert(rows(3, v="by another program"))
    seen: dict[Any, list[int]] = {}

    def reader(version: Any) -> dg.AssetsDefinition:
        read = dg.AssetIn(key=["d", "t"], metadata={"columns": ["id"], "where": "id > 1", "version": version})

        @dg.asset(name=f"at_{str(version)[:8].replace('-', '_')}", ins={"t": read})
        def at(t: pa.Table) -> None:
            assert t.column_names == ["id"]
            seen[version] = sorted(t.column("id").to_pylist())

        found: dg.AssetsDefinition = at
        return found

    versions = ("newest", "materialized", first, 1, "2999-01-01")
    readers = [reader(v) for v in versions]
    lake.run(t, *readers, selection=readers)
    assert seen == {"newest": [2, 3], "materialized": [2], first: [2], 1: [2], "2999-01-01": [2, 3]}


def test_a_partition_is_overwritten_and_read_alone(lake: Lake) -> None:
    days = dg.DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-01-05")
    text = {"write_mode": "overwrite", "partition_expr": "day", "partition_keys": ["day"]}
    held = {"2026-01-01": [1, 2], "2026-01-02": [3]}

    def of_the_day(context: dg.AssetExecutionContext) -> pa.Table:
        found = [(k, i) for k in context.partition_keys for i in held[k]]
        days = pa.array([k for k, _ in found], pa.string()).cast(pa.date32())
        return pa.table({"day": days, "id": pa.array([i for _, i in found], pa.int64())})

    t = asset("t", of_the_day, text, partitions_def=days, backfill_policy=dg.BackfillPolicy.single_run())
    seen: list[list[int]] = []

    @dg.asset(ins={"t": dg.AssetIn(key=["d", "t"])}, partitions_def=days)
    def one(t: pa.Table) -> None:
        seen.append(sorted(t.column("id").to_pylist()))

    @dg.asset(ins={"t": dg.AssetIn(key=["d", "t"])})
    def whole(t: pa.Table) -> None:
        seen.append(sorted(t.column("id").to_pylist()))

    span = {"dagster/asset_partition_range_start": "2026-01-01", "dagster/asset_partition_range_end": "2026-01-02"}
    lake.run(t, tags=span)
    held["2026-01-02"] = []
    lake.run(t, one, partition_key="2026-01-02")
    held["2026-01-01"] = [9]
    lake.run(t, one, partition_key="2026-01-01")
    lake.run(t, whole, selection=[whole])
    assert seen == [[], [9], [9]]
    wrong = asset("t", rows(1).add_column(0, "day", [["2026-01-04"]]).drop_columns("v"), text, partitions_def=days)
    said = failure(lake.run(wrong, partition_key="2026-01-03", ok=False))
    assert "has rows for day = DATE '2026-01-04'" in said
    unsaid = asset("t", rows(1), {"write_mode": "overwrite"}, partitions_def=days)
    assert "with metadata partition_expr" in failure(lake.run(unsaid, partition_key="2026-01-03", ok=False))


def test_partitions_of_two_dimensions_and_of_text(lake: Lake) -> None:
    found = dg.MultiPartitionsDefinition(
        {"place": dg.StaticPartitionsDefinition(["n", "s"]), "month": dg.MonthlyPartitionsDefinition("2026-01-01")}
    )
    expression = {"place": "place", "month": "month"}
    metadata = {"write_mode": "overwrite", "partition_expr": expression, "partition_keys": ["place", "month"]}

    def of_the_place(context: dg.AssetExecutionContext) -> pa.Table:
        place, month = (context.partition_key.keys_by_dimension[d] for d in ("place", "month"))
        return pa.table({"place": [place], "month": [month], "run": [context.run.run_id[:8]]})

    t = asset("t", of_the_place, metadata, partitions_def=found)
    for key in ("2026-01-01|n", "2026-01-01|s", "2026-01-01|n"):
        lake.run(t, partition_key=key)
    assert [r[:2] for r in lake.content()] == [("n", "2026-01-01"), ("s", "2026-01-01")]


def test_readers_of_a_table_by_files_have_partitions_that_fit(lake: Lake) -> None:
    lake.warehouse.create(
        "d.t", {"fields": [{"name": "day", "type": "DATE"}, {"name": "id", "type": "BIGINT"}]}
    ).upsert([{"day": f"2026-01-0{d}", "id": d} for d in (1, 2, 3)])
    files = dg.DynamicPartitionsDefinition(name="d__t__files")
    lake.instance.add_dynamic_partitions("d__t__files", ["a.parquet", "b.parquet"])
    table = dg.AssetSpec(["d", "t"], partitions_def=files)
    seen: dict[str, list[int]] = {}

    def reader(name: str, **more: Any) -> dg.AssetsDefinition:
        how = {k: more.pop(k) for k in ("partition_mapping", "metadata") if k in more}

        @dg.asset(name=name, ins={"t": dg.AssetIn(["d", "t"], **how)}, **more)
        def read(t: pa.Table) -> None:
            seen[name] = sorted(t.column("id").to_pylist())

        found: dg.AssetsDefinition = read
        return found

    whole = reader("whole")
    own = {"partition_mapping": dg.AllPartitionMapping(), "metadata": {"partition_expr": "day"}}
    day = reader("day", partitions_def=dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-09"), **own)
    month = reader("month", partitions_def=dg.MonthlyPartitionsDefinition("2026-01-01"), **own)
    static = reader("static", partitions_def=dg.StaticPartitionsDefinition(["2026-01-03"]), **own)
    same = reader("same", partitions_def=files)
    lake.run(whole, table, selection=[whole])
    for asset_, key in ((day, "2026-01-02"), (month, "2026-01-01"), (static, "2026-01-03")):
        lake.run(asset_, table, selection=[asset_], partition_key=key)
    assert seen == {"whole": [1, 2, 3], "day": [2], "month": [1, 2, 3], "static": [3]}
    said = failure(lake.run(same, table, selection=[same], partition_key="a.parquet", ok=False))
    assert "partitions of d/t are requested: name their column in the metadata partition_expr" in said


def test_a_step_that_is_tried_again_appends_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is made, then the step fails: its second try finds the batch."""
    tries: list[int] = []
    told = dg.OutputContext.add_output_metadata

    def fail_once(context: dg.OutputContext, metadata: Any) -> None:
        tries.append(len(lake.content()))
        if len(tries) == 1:
            raise OSError("the event log does not answer")
        told(context, metadata)

    monkeypatch.setattr(dg.OutputContext, "add_output_metadata", fail_once)
    t = asset("t", rows(1, 2), {"write_mode": "append"}, retry_policy=dg.RetryPolicy(max_retries=1))
    lake.run(t)
    assert tries == [2, 2]
    lake.run(t)
    assert len(lake.content()) == 4


def test_columns_have_the_lineage_that_the_asset_says(lake: Lake) -> None:
    source = asset("src", rows(1, 2), KEYED)
    before = dg.AssetKey(["d", "src"])

    def made(lineage: Any) -> dg.AssetsDefinition:
        metadata = {"write_mode": "overwrite", "column_lineage": lineage}
        return asset("t", pa.table({"id": [1], "n": [2]}), metadata, deps=[["d", "src"], ["elsewhere", "x"]])

    lake.run(source)
    said = written(lake.run(made("by_name")))[0]["dagster/column_lineage"]
    assert said.deps_by_column == {"id": [dg.TableColumnDep(before, "id")]}
    said = written(lake.run(made({"n": ["d/src.v", "elsewhere/x.any"]})))[0]["dagster/column_lineage"]
    other = dg.TableColumnDep(dg.AssetKey(["elsewhere", "x"]), "any")
    assert said.deps_by_column == {"n": [dg.TableColumnDep(before, "v"), other]}
    for wrong, text in (
        ({"m": ["d/src.v"]}, "there is no column 'm'"),
        ({"n": ["d/src.w"]}, "there is no column of d/src 'w'"),
        ({"n": ["d/scr.v"]}, "there is no asset before it 'd/scr'"),
    ):
        assert text in failure(lake.run(made(wrong), ok=False))


def test_resources_open_tables_and_tell_what_was_done(lake: Lake) -> None:
    lake.run(asset("t", rows(1), KEYED))

    @dg.asset
    def by_hand(orders: LakeIdxTable, catalog: LakeIdxCatalog) -> dg.MaterializeResult[None]:
        assert catalog.open().tables() == ["d.t"]
        return orders.materialized(catalog.table("d.t").upsert(rows(2, v="new")))

    uri = lake.warehouse.path("d.t")
    resources = {"orders": LakeIdxTable(uri=uri), "catalog": LakeIdxCatalog(warehouse=lake.warehouse.uri)}
    metadata, version = written(
        dg.materialize([by_hand], resources=resources, instance=lake.instance, run_config=QUIET)
    )
    snapshot = lake.warehouse.table("d.t").snapshot
    assert snapshot is not None
    assert (version, metadata["lakeidx/snapshot_id"], metadata["lakeidx/upserts"]) == (snapshot.identity, 2, 1)
    assert lake.content() == [(1, "old"), (2, "new")]
