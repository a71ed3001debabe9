"""The asset graph of the repository's tables and of one with every section, as text: a change of it is seen in review.

``LAKEIDX_WRITE_GRAPH=1`` writes what is there now; look at the difference before it is committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
EVERYTHING: dict[str, Any] = {
    "table": "d.all-sections",
    "warehouse": "/lake",
    "owners": ["team:data", "ada@example.org"],
    "tags": {"domain": "tests"},
    "landing": {"path": "/landing/all", "pattern": "*.parquet", "asset": "team/export"},
    "partitions": {"by": "daily", "start": "2026-01-01", "key": r"(\d{4}-\d{2}-\d{2})", "per_run": 7},
    "fields": [{"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}],
    "primaryKeys": ["k"],
    "options": {"bucket": -1, "changelog-producer": "lookup", "file-index.bloom-filter.columns": "v"},
    "lookup_store": True,
    "limits": {"deletes": "5%", "inserts": "2x"},
    "publish": "after_checks",
    "changes": {"path": "/out"},
    "expectations": [
        {"type": "expect_column_values_to_not_be_null", "args": {"column": "v"}},
        {"type": "expect_table_row_count_to_be_between", "args": {"min_value": 1}, "on": "table", "severity": "warn"},
    ],
    "freshness": {"fail_hours": 26, "warn_hours": 25},
    "schedules": {"compaction": "15 * * * *", "expiry": "45 3 * * *", "verification": "0 5 * * 0"},
}


def lines(defs: dg.Definitions) -> Iterator[str]:
    """Each asset with what is before it, its partitions, pool and checks; jobs, sensors and schedules."""
    repository = defs.get_repository_def()
    graph = repository.asset_graph
    for key in sorted(graph.get_all_asset_keys()):
        node = graph.get(key)
        kind = "observable" if node.is_observable else "materializable" if node.is_materializable else "external"
        yield f"{key.to_user_string()} ({kind}; {', '.join(sorted(node.kinds))})"
        yield from (f"  after {k.to_user_string()}" for k in sorted(node.parent_keys))
        if node.partitions_def is not None:
            unique = node.partitions_def.name if isinstance(node.partitions_def, dg.DynamicPartitionsDefinition) else ""
            yield f"  partitions {type(node.partitions_def).__name__} {unique or ''}".rstrip()
        if node.freshness_policy is not None:
            policy: Any = node.freshness_policy
            yield f"  fresh for {policy.fail_window.to_timedelta()}, warns after {policy.warn_window.to_timedelta()}"
        yield from (f"  pool {p}" for p in sorted(node.pools or ()))
        yield from (f"  owner {o}" for o in node.owners)
        yield from (f"  tag {k}={v}" for k, v in sorted(node.tags.items()) if not k.startswith("dagster/kind"))
        for check in sorted(c.name for c in node.check_keys):
            spec = graph.get_check_spec(dg.AssetCheckKey(key, check))
            yield f"  check {check}{' (blocks)' if spec.blocking or spec.metadata.get('lakeidx/blocks') else ''}"
    yield from sorted(f"job {j.name}" for j in repository.get_all_jobs() if not j.name.startswith("__"))
    yield from sorted(f"sensor {s.name} ({s.default_status.value})" for s in repository.sensor_defs)
    yield from sorted(f"schedule {s.name} {s.cron_schedule}" for s in repository.schedule_defs)


def test_the_asset_graph_is_the_one_that_was_reviewed(tmp_path: Path) -> None:
    # What it takes along would cost each worker that only collects the tests.
    from lakeidx.dagster.folder import build_definitions

    for file in (ROOT / "pipelines").glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "all.yaml").write_text(yaml.safe_dump(EVERYTHING), encoding="utf-8")
    defs = build_definitions(tmp_path)
    untold = [
        j.name for j in defs.get_repository_def().get_all_jobs() if not (j.description or j.name.startswith("__"))
    ]
    assert not untold, "`dg list defs` has nothing to say of these jobs"
    found = "\n".join(lines(defs)) + "\n"
    reviewed = HERE / "asset_graph.txt"
    if os.environ.get("LAKEIDX_WRITE_GRAPH"):
        reviewed.write_text(found, encoding="utf-8")
    assert found.splitlines() == reviewed.read_text(encoding="utf-8").splitlines()
