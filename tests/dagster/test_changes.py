"""Changes from a database to a consumer: messages land, are committed and checked, and a file and an event per commit follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from lakeidx.dagster.sensors.changes import build_changes_sensor
from lakeidx.table.expiration.read import read_consumers
from tests.dagster.pipelines import Deployment, metrics, red_checks

pytestmark = pytest.mark.dagster


def deployment(tmp_path: Path, **options: str) -> Deployment:
    return Deployment(
        tmp_path,
        {
            "landing": {"pattern": "*.json", "format": "debezium", "order": ["source.lsn"]},
            "fields": [{"name": n, "type": t} for n, t in (("k", "BIGINT"), ("v", "STRING"), ("seq", "BIGINT"))],
            "primaryKeys": ["k"],
            "partitionKeys": [],
            "merge_schema": "add",
            "options": {
                "sequence.field": "seq",
                "changelog-producer": "lookup",
                "commit.force-compact": "true",
                **options,
            },
            "changes": {"path": str(tmp_path / "out"), "consumer": "mirror", "start": "earliest"},
        },
    )


def land(d: Deployment, name: str, *changes: tuple[str, dict[str, Any] | None, dict[str, Any] | None, int]) -> None:
    messages = [
        {"op": op, "before": before, "after": after, "source": {"lsn": lsn, "ts_ms": 1_700_000_000_000 + lsn}}
        for op, before, after, lsn in changes
    ]
    (d.landing / name).write_text("".join(json.dumps(m) + "\n" for m in messages) + "null\n", encoding="utf-8")


def row(k: int, v: str, **more: str) -> dict[str, Any]:
    return {"k": k, "v": v, **more}


def events(d: Deployment) -> list[dg.AssetMaterialization]:
    """Materializations of the consumer's asset, oldest first."""
    records = d.instance.fetch_materializations(dg.AssetKey(["d", "t", "changes"]), limit=100).records
    return [r.asset_materialization for r in reversed(records) if r.asset_materialization is not None]


def files(d: Deployment) -> dict[str, list[tuple[str, int, str | None]]]:
    """File -> (kind, key, value) of its rows."""
    out = {}
    for file in sorted((d.folder / "out").glob("*.parquet")):
        rows = pq.read_table(file).to_pylist()
        out[file.name] = [(r["_rowkind"], r["k"], r["v"]) for r in rows]
    return out


def test_from_the_database_to_the_consumer(tmp_path: Path) -> None:
    d = deployment(tmp_path)
    land(d, "a.json", ("c", None, row(1, "a"), 1), ("c", None, row(2, "b"), 2))
    first = d.run("a.json")
    assert first.success
    assert red_checks(first) == set()
    assert "changelog_agrees" in {e.check_name for e in first.get_asset_check_evaluations()}
    commit = metrics(first, "commit")
    assert commit["changelog_rows"] == 2
    committed = d.table.metadata.load_snapshot(1).time_millis
    assert commit["lag_seconds"] == (committed - 1_700_000_000_002) / 1000
    assert "skipped" in metrics(first, "ingest")
    assert d.run_asset("changes").success
    land(
        d,
        "b.json",
        ("u", row(1, "a"), row(1, "A"), 3),
        ("d", row(2, "b"), None, 4),
        ("c", None, row(3, "c", city="Bern"), 5),
    )
    second = d.run("b.json")
    assert (metrics(first, "t").get("consumer_lag_snapshots"), metrics(second, "t")["consumer_lag_snapshots"]) == (
        None,
        2,
    )
    assert "city" in d.table.schema.field_names
    assert d.run_asset("changes").success
    found = files(d)
    assert sorted(x for rows in found.values() for x in rows) == sorted(
        [("+I", 1, "a"), ("+I", 2, "b"), ("-U", 1, "a"), ("+U", 1, "A"), ("-D", 2, "b"), ("+I", 3, "c")]
    )
    told = events(d)
    assert [Path(str(e.metadata["dagster/uri"].value)).name for e in told] == list(found)
    assert [e.metadata["dagster/row_count"].value for e in told] == [2, 4]
    assert [e.metadata["lakeidx/snapshots_behind"].value for e in told] == [0, 0]
    assert d.run_asset("changes").success
    assert len(events(d)) == 2
    newest = d.table.metadata.latest_snapshot_id() or 0
    assert read_consumers(d.table.metadata)["mirror"][0] == newest + 1


def test_one_run_per_snapshot_and_a_changelog_that_says_something_else(tmp_path: Path) -> None:
    d = deployment(tmp_path)
    sensor = build_changes_sensor(d.config, d.defs.resolve_job_def("d__t__changes_job"))
    resources = d.defs.get_repository_def().get_top_level_resources()

    def look(cursor: str | None) -> dg.SensorResult:
        with dg.build_sensor_context(
            instance=d.instance, cursor=cursor, resources={"lakeidx_tables": resources["lakeidx_tables"]}
        ) as context:
            found = sensor(context)
            assert isinstance(found, dg.SensorResult)
            return found

    assert not look(None).run_requests
    land(d, "a.json", ("c", None, row(1, "a"), 1), ("c", None, row(2, "b"), 2))
    d.run("a.json")
    first = look(None)
    assert [r.run_key for r in first.run_requests or ()] == [f"changes-of-snapshot-{first.cursor}"]
    assert not look(first.cursor).run_requests
    (file,) = Path(d.table.uri).glob("bucket-*/changelog-*.parquet")
    rows = pq.read_table(file)
    pq.write_table(rows.set_column(rows.schema.get_field_index("v"), "v", [["a", "x"]]), file)
    assert "changelog_agrees" in red_checks(d.run("a.json", raise_on_error=False))


def test_a_table_without_a_producer_has_no_check_of_its_changelog(tmp_path: Path) -> None:
    d = deployment(tmp_path, **{"changelog-producer": "none"})
    land(d, "a.json", ("c", None, row(1, "a"), 1))
    result = d.run("a.json")
    assert result.success
    assert "changelog_agrees" not in {e.check_name for e in result.get_asset_check_evaluations()}
    assert "changelog_rows" not in metrics(result, "commit")
