"""A feed of many tables in Dagster: a file, an asset per table, one read; runs again; a table in the middle; what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

import lakeidx
from lakeidx.api import feeds
from lakeidx.batch import landed_files
from lakeidx.dagster.factory import build_feed
from lakeidx.dagster.folder import build_definitions
from lakeidx.dagster.resources import SparkResource
from lakeidx.pipeline_file.feed import load_feeds
from tests.dagster.pipelines import QUIET

pytestmark = pytest.mark.dagster


def message(table: str, key: int, **more: Any) -> str:
    return json.dumps({"database": "shop", "table": table, "type": "INSERT", "es": 1, "isDdl": False, "pkNames": ["id"],
                       "mysqlType": {"id": "int"}, "data": [{"id": str(key)}], "old": None} | more)  # fmt: skip


class Feed:
    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder = folder
        for name in ("pipelines", "landing"):
            (folder / name).mkdir(exist_ok=True)
        file = {"feed": "all", "warehouse": str(folder / "lake"), "database": "ods", "table_prefix": "s_",
                "retries": {"max_retries": 0},
                "landing": {"path": str(folder / "landing"), "pattern": "*.json", "format": "canal"}} | changes  # fmt: skip
        (folder / "pipelines" / "feed.yaml").write_text(yaml.safe_dump(file), encoding="utf-8")
        self.instance = dg.DagsterInstance.ephemeral()

    def definitions(self) -> dg.Definitions:
        return build_definitions(self.folder / "pipelines", spark=SparkResource(engine="local", parallelism=1))

    def run(self, name: str, *lines: str) -> dg.ExecuteInProcessResult:
        if lines:
            (self.folder / "landing" / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        self.instance.add_dynamic_partitions("ods__all__files", [name])
        job = self.definitions().resolve_job_def("ods__all__batch")
        return job.execute_in_process(
            partition_key=name, instance=self.instance, run_config=QUIET, raise_on_error=False
        )

    def materialized(self, result: dg.ExecuteInProcessResult) -> dict[str, Any]:
        found = [e.step_materialization_data.materialization for e in result.get_asset_materialization_events()]
        return {m.asset_key.to_user_string(): {n: v.value for n, v in m.metadata.items()} for m in found}

    def rows(self, table: str) -> list[int]:
        found = lakeidx.Warehouse(self.folder / "lake").table(f"ods.{table}").scan().to_arrow()
        return sorted(found.column("id").to_pylist())


def test_each_table_is_an_asset_and_one_file_is_read_once(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    done = feed.materialized(feed.run("1.json", message("a", 1), message("b", 1), message("b", 2)))
    assert set(done) == {"ods/all/sync", "ods/s_a", "ods/s_b"}
    assert (done["ods/s_b"]["lakeidx/rows"], done["ods/s_b"]["lakeidx/created"]) == (2, True)
    graph = feed.definitions().resolve_asset_graph()
    assert graph.get(dg.AssetKey(["ods", "s_b"])).parent_keys == {dg.AssetKey(["ods", "all", "sync"])}
    again = feed.materialized(feed.run("1.json"))
    assert again["ods/s_a"]["lakeidx/already_committed"] is True
    later = feed.materialized(feed.run("2.json", message("a", 2), message("c", 1)))
    assert later["ods/s_c"]["lakeidx/created"] is True
    assert (feed.rows("s_a"), feed.rows("s_b"), feed.rows("s_c")) == ([1, 2], [1, 2], [1])


def test_files_of_dms_are_a_feed_by_their_folders(tmp_path: Path) -> None:
    def land(name: str, text: str) -> None:
        (tmp_path / "landing" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "landing" / name).write_text(text, encoding="utf-8")

    landing = {"path": str(tmp_path / "landing"), "pattern": "*/*.csv", "format": "dms", "settle_seconds": 0}
    feed = Feed(tmp_path, landing=landing, primary_keys={"*": "id"}, excluding_tables="audit")
    land("shop/orders/LOAD00000001.csv", "id,n\n1,1\n2,1\n")
    # Its name is before that of the full load, and what it says is newer.
    land("shop/orders/2026/01/02/20260102-101112123.csv", "Op,id,n\nU,1,2\nD,2,1\n")
    land("shop/tags/LOAD00000001.csv", "id,n\n7,1\n")
    land("shop/audit/LOAD00000001.csv", "id,n\n7,1\n")
    defs = feed.definitions()
    sensor, resources = (
        defs.resolve_sensor_def("ods__all__landing_sensor"),
        {"lakeidx_store": (defs.resources or {})["lakeidx_store"]},
    )
    with dg.build_sensor_context(instance=feed.instance, resources=resources) as context:
        told = sensor(context)
    assert isinstance(told, dg.SensorResult)
    requests = list(told.run_requests or ())
    (added,) = told.dynamic_partitions_requests or ()
    feed.instance.add_dynamic_partitions("ods__all__files", list(added.partition_keys))
    assert [r.partition_key for r in requests] == [
        "shop/audit/LOAD00000001.csv", "shop/orders/LOAD00000001.csv",
        "shop/orders/2026/01/02/20260102-101112123.csv", "shop/tags/LOAD00000001.csv",
    ]  # fmt: skip
    for request in requests:
        assert feed.run(str(request.partition_key)).success
    assert (feed.rows("s_orders"), feed.rows("s_tags")) == ([1], [7])
    assert set(feed.materialized(feed.run("shop/tags/LOAD00000001.csv"))) == {"ods/all/sync", "ods/s_tags"}
    left = Feed(tmp_path, landing={**landing, "pattern": "*.csv"}).definitions().metadata["lakeidx/left_out/feed.yaml"]
    assert "are in folders, <schema>/<table>/<file>: give landing.pattern a slash" in str(left.value)


def test_a_run_that_died_between_two_tables_is_made_again(tmp_path: Path, monkeypatch: Any) -> None:
    feed, calls = Feed(tmp_path), []

    def dies(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise KeyError("the process dies here")
        whole(*args)

    whole = landed_files.mark_committed
    monkeypatch.setattr(feeds, "mark_committed", dies)
    assert not feed.run("1.json", *(message(t, 1) for t in "abc")).success
    assert feed.run("1.json").success
    warehouse = lakeidx.Warehouse(tmp_path / "lake")
    assert {t: len(warehouse.table(t).snapshots()) for t in warehouse.tables()} == {
        "ods.s_a": 1,
        "ods.s_b": 1,
        "ods.s_c": 1,
    }


def test_a_table_that_is_refused_fails_the_run_and_the_others_are_materialized(tmp_path: Path) -> None:
    feed = Feed(tmp_path, including_tables=["a", "b"])
    keys = {k.to_user_string() for k in feed.definitions().resolve_asset_graph().get_all_asset_keys()}
    assert {"ods/s_a", "ods/s_b"} <= keys
    result = feed.run("1.json", message("a", 1, pkNames=None), message("b", 1), message("left", 1))
    assert not result.success
    assert "ods/s_b" in feed.materialized(result)
    feed = Feed(tmp_path, including_tables=["a", "b"], primary_keys={"a": "id"})
    assert set(feed.materialized(feed.run("1.json"))) == {"ods/all/sync", "ods/s_a", "ods/s_b"}
    assert feed.rows("s_a") == [1]


@pytest.mark.parametrize("decision", ["release", "discard"])
def test_a_table_beyond_a_limit_is_held_until_somebody_decides(tmp_path: Path, decision: str) -> None:
    feed = Feed(tmp_path, limits={"inserts": "2x"})
    feed.run("1.json", *(message(t, 1) for t in "ab"))
    held = feed.run("2.json", *(message("a", k) for k in (2, 3, 4)), message("b", 2))
    assert not held.success
    (failure,) = (e.step_failure_data for e in held.get_step_failure_events())
    assert "3 inserts where recent batches have 1.0 are beyond the limit inserts 2x" in str(failure.error)
    assert feed.materialized(held)["ods/s_b"]["lakeidx/rows"] == 1
    assert (feed.rows("s_a"), feed.rows("s_b")) == ([1], [1, 2])
    table = lakeidx.Warehouse(tmp_path / "lake").table("ods.s_a")
    (batch,) = (b["batch"] for b in table.held_batches())
    getattr(table, f"{decision}_batch")(batch)
    again = feed.run("2.json")
    assert again.success
    assert feed.rows("s_a") == ([1, 2, 3, 4] if decision == "release" else [1])
    assert feed.materialized(again)["ods/s_b"]["lakeidx/already_committed"] is True


def test_a_feed_file_with_mistakes_is_left_out_with_its_lines(tmp_path: Path) -> None:
    feed = Feed(tmp_path, including_tables="(", landing={"path": "/in", "format": "csv"}, tabel_prefix="x")
    (problems,) = [e.problems for e in load_feeds(tmp_path / "pipelines")[1].values()]
    assert any("tabel_prefix" in p and "table_prefix" in p for p in problems)
    left_out = feed.definitions().metadata["lakeidx/left_out/feed.yaml"]
    assert "tabel_prefix" in str(left_out.value)
    Feed(tmp_path, including_tables="(")
    (problems,) = [e.problems for e in load_feeds(tmp_path / "pipelines")[1].values()]
    assert "including_tables is no regular expression" in problems[0]


def test_tables_of_a_feed_are_kept_and_told_of_as_those_of_other_files(tmp_path: Path) -> None:
    feed = Feed(
        tmp_path,
        including_tables=["a", "later"],
        table_conf={"bucket": 1},
        alerts=[{"webhook": "https://alerts.test"}],
        schedules={"verification": "0 5 * * *"},
    )
    for n in range(6):
        assert feed.run(f"{n}.json", message("a", n)).success
    defs = feed.definitions()
    for upkeep in ("compaction", "snapshot_expiry", "verification"):
        for table in ("s_a", "s_later"):
            job = defs.resolve_job_def(f"ods__{table}__{upkeep}_job")
            done = job.execute_in_process(instance=feed.instance, run_config=QUIET)
            assert done.success
            bad = [
                e.asset_check_evaluation_data for e in done.all_events if e.event_type_value == "ASSET_CHECK_EVALUATION"
            ]
            assert all(c.passed for c in bad), bad
            judged = [c for c in bad if "Not judged" not in str(c.description)]
            assert bool(judged) == (table == "s_a" and upkeep != "snapshot_expiry")
    assert len(lakeidx.Warehouse(tmp_path / "lake").table("ods.s_a").files()) == 1
    (built,) = (build_feed(config, file) for file, config in load_feeds(tmp_path / "pipelines")[0].items())
    assert {s.name: s.cron_schedule for s in built.schedules}["ods__s_a__verification_schedule"] == "0 5 * * *"
    for name in ("ods.all", "ods.s_a", "ods.s_later"):
        assert [a.webhook for a in built.told[name]] == ["https://alerts.test"]


def test_a_table_that_two_files_describe_is_left_to_the_first(tmp_path: Path) -> None:
    feed = Feed(tmp_path, including_tables=["a"])
    other = {"table": "ods.s_a", "warehouse": str(tmp_path / "lake"), "landing": {"path": str(tmp_path / "other")},
             "fields": [{"name": "id", "type": "INT"}], "primaryKeys": ["id"]}  # fmt: skip
    (tmp_path / "pipelines" / "table.yaml").write_text(yaml.safe_dump(other), encoding="utf-8")
    defs = feed.definitions()
    keys = {k.to_user_string() for k in defs.resolve_asset_graph().get_all_asset_keys()}
    assert "ods/s_a" in keys
    assert "ods/all/sync" not in keys
    assert "table.yaml describes the table ods.s_a already" in str(defs.metadata["lakeidx/left_out/feed.yaml"].value)
