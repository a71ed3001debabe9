"""A table that is the only asset of its batches: the same rows, checks, refusals and restarts as with an asset for each stage."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakeidx.batch import upsert
from lakeidx.dagster.assets import stages
from lakeidx.dagster.names import TABLE, asset_key
from lakeidx.errors import UnavailableError
from lakeidx.maintenance import landed_columns
from lakeidx.pipeline_file.problems import PipelineFileError
from tests.dagster.pipelines import Deployment, metrics, red_checks
from tests.dagster.test_verdicts import NOT_NULL, shown, verdicts

pytestmark = pytest.mark.dagster
ALONE = {"lineage": "table"}
FEW = {"type": "expect_column_max_to_be_between", "args": {"column": "deletes", "max_value": 2}}
FEW |= {"on": "batches", "name": "few", "severity": "warn"}


def rows(low: int, high: int, text: str) -> list[tuple[int, int, str | None]]:
    return [(1, k, f"{text}{k}") for k in range(low, high)]


def steps(result: dg.ExecuteInProcessResult) -> set[str | None]:
    return {e.step_key for e in result.all_events if e.is_step_start}


def test_the_table_is_the_only_asset_of_its_batches(tmp_path: Path) -> None:
    d = Deployment(
        tmp_path,
        {**ALONE, "expectations": [*NOT_NULL["expectations"], FEW], "changes": {"path": str(tmp_path / "out")}},
    )
    keys = {k.to_user_string() for k in d.defs.resolve_asset_graph().get_all_asset_keys()}
    others = {"landing", "changes", "compaction", "snapshot_expiry", "verification"}
    assert keys - {"lakeidx/pipeline_files"} == {"d/t", *(f"d/t/{name}" for name in others)}
    assert {k.to_user_string() for k in d.defs.resolve_asset_graph().get(asset_key(d.config, TABLE)).parent_keys} == {
        "d/t/landing"
    }
    d.land("a.parquet", rows(0, 25, "a"))
    d.land("b.parquet", [*rows(0, 4, "b"), (1, 99, "x")], ["-D"] * 4 + ["?"])
    first = d.run("a.parquet")
    assert steps(first) == {"d__t__load"}
    said = metrics(first, "t")
    assert (said["rows_in"], said["inserts"], said["new_buckets"], said["row_count"]) == (25, 25, 3, 25)
    assert {e.check_name for e in first.get_asset_check_evaluations()} == {
        "rows_rejected", "expect_column_values_to_not_be_null__v", "batch_rows_accounted", "files_whole", "keys_in_place",
        "staged_rows_committed", "few",
    }  # fmt: skip
    second = d.run("b.parquet")
    assert red_checks(second) == {"rows_rejected", "few"}
    assert d.content() == {(1, k): f"a{k}" for k in range(4, 25)}
    # A partition that comes again changes nothing, unless it is asked to.
    assert metrics(d.run("a.parquet"), "t")["run"] == "The batch was in the table already: nothing was done."
    assert len(d.content()) == 21
    assert d.run("a.parquet", overwrite="table").success
    assert len(d.content()) == 25


@pytest.mark.parametrize("planned", [True, False])
def test_a_run_that_stops_before_the_table_commits_nothing(tmp_path: Path, planned: bool) -> None:
    d = Deployment(tmp_path, {**ALONE, **NOT_NULL}, planned=planned)
    d.land("a.parquet", rows(0, 3, "a"))
    d.land("b.parquet", [(1, 1, None)])
    d.land("c.parquet", rows(5, 7, "c"))
    assert d.run("a.parquet").success
    refused = d.run("b.parquet", raise_on_error=False)
    assert not refused.success
    assert not refused.get_asset_materialization_events()
    assert (red_checks(refused), len(d.content())) == ({"expect_column_values_to_not_be_null__v"}, 3)
    red = {name for name, (verdict, _) in shown(d).items() if verdict != "SUCCEEDED"}
    assert red == {"expect_column_values_to_not_be_null__v"}
    assert d.run("c.parquet").success
    assert verdicts(d) == {"SUCCEEDED"}


def test_a_stage_that_fails_is_tried_again_and_the_earlier_ones_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    d = Deployment(tmp_path, ALONE)
    d.land("a.parquet", rows(0, 5, "a"))
    asked: list[str] = []
    write, ingest = upsert.write_attempt, landed_columns.ingest_landing

    def write_again(*given: Any, **named: Any) -> Any:
        asked.append("write")
        if asked.count("write") == 1:
            raise UnavailableError("the store did not answer")
        return write(*given, **named)

    def ingest_once(*given: Any, **named: Any) -> Any:
        report = ingest(*given, **named)
        asked.append(f"ingest {report.batch_id}")
        return report

    monkeypatch.setattr(stages, "write_attempt", write_again)
    monkeypatch.setattr(stages, "ingest_landing", ingest_once)
    result = d.run("a.parquet")
    assert (result.success, result.retry_attempts_for_node("d__t__load")) == (True, 1)
    assert len(set(asked) - {"write"}) == 1, "the same batch"
    assert len(d.content()) == 5
    assert d.table.snapshot is not None
    assert d.table.snapshot.id == 1


def test_two_checks_of_the_table_have_two_names(tmp_path: Path) -> None:
    named = [{**NOT_NULL["expectations"][0], "name": "few"}, FEW]
    Deployment(tmp_path / "stages", {"expectations": named})
    with pytest.raises(PipelineFileError, match="two expectations on batches are named few"):
        Deployment(tmp_path / "table", {**ALONE, "expectations": named})


def test_a_run_stores_what_is_looked_at_once(tmp_path: Path) -> None:
    for lineage, most in (("stages", 60_000), ("table", 36_000)):
        home = tmp_path / lineage
        home.mkdir()
        (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        wide = [{"name": f"a_column_of_some_length_{n}", "type": "STRING"} for n in range(40)]
        fields = [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}, *wide]
        landing = {"missing_columns": "null"}
        changes = {"lineage": lineage, "fields": fields, "landing": landing, "table": "nycflights.weather"}
        d = Deployment(home, changes, dg.DagsterInstance.from_config(str(home)))
        d.land("a.parquet", rows(0, 5, "a"))
        run = d.run("a.parquet").run_id
        (size,) = sqlite3.connect(home / "history" / "runs" / f"{run}.db").execute(
            "SELECT sum(length(event)) FROM event_logs"
        )
        assert size[0] < most
