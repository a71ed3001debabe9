"""Metrics: a parser of OpenMetrics reads them, they are a table's own figures, and only this machine reaches them."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from threading import Event, Thread

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import lakeidx
from lakeidx.errors import InvalidInputError
from lakeidx.maintenance.metrics.exposition import metrics_text, serve_metrics
from tests.kit.command_line import call

SPEC = {
    "fields": [{"name": "p", "type": "INT"}, {"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}],
    "primaryKeys": ["p", "k"],
    "partitionKeys": ["p"],
    "options": {"bucket": "2", "metadata.iceberg.storage": "table-location"},
}


#: Of the page "Metrics" of Paimon's documentation: those that a table's files and reports say.
PAIMONS = (
    "commit.lastCommitDuration", "commit.lastCommitAttempts", "commit.lastTableFilesAdded", "commit.lastTableFilesDeleted",
    "commit.lastDeltaRecordsAppended", "commit.lastChangelogRecordsAppended", "commit.lastPartitionsWritten",
    "commit.lastBucketsWritten", "commit.lastCompactionInputFileSize", "commit.lastCompactionOutputFileSize",
    "compaction.maxLevel0FileCount", "compaction.avgLevel0FileCount", "compaction.maxTotalFileSize",
    "compaction.avgTotalFileSize",
)  # fmt: skip


def snake(name: str) -> str:
    return "paimon_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace(".", "_")).lower()


@pytest.fixture
def table(tmp_path: Path) -> lakeidx.Table:
    table = lakeidx.Table.create(tmp_path / "w" / "d.db" / "t", SPEC)
    table.upsert([{"p": k % 2, "k": k, "v": "a"} for k in range(10)], batch_id="one")
    table.upsert([{"p": 0, "k": k, "v": "b"} for k in range(0, 4, 2)], batch_id="two")
    return table


def figures(text: str) -> dict[tuple[str, ...], float]:
    """Values by name and labels beside those of the table."""
    return {
        (s.name, *(v for k, v in sorted(s.labels.items()) if k not in ("database", "table"))): s.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for s in family.samples
    }


def test_figures_are_those_of_the_table(table: lakeidx.Table) -> None:
    table.follow("earliest", consumer="reader").close()
    table.metadata.store.put(table.metadata.paths.consumer_path("reader"), b'{"nextSnapshot" : 2}')
    found = figures(metrics_text(lambda: [table]))
    files = list(table.files())
    assert found["lakeidx_table_up",] == 1
    assert found["lakeidx_table_rows",] == sum(f["rows"] for f in files) == 12
    assert found["lakeidx_table_bytes",] == sum(f["bytes"] for f in files)
    assert found["lakeidx_table_files",] == len(files)
    assert found["lakeidx_table_buckets",] == len(table.buckets())
    assert (found["lakeidx_table_partitions",], found["lakeidx_table_snapshots",]) == (2, 2)
    assert found["lakeidx_consumer_snapshots_behind", "reader"] == 1
    assert found["paimon_commit_last_delta_records_appended",] == 2
    assert found["paimon_commit_last_partitions_written",] == 1
    assert found["paimon_compaction_max_level0_file_count",] == 2
    assert found["lakeidx_last_batch_rows", "in"] == 2
    assert found["lakeidx_last_batch_rows", "upserted"] == 2
    assert found["lakeidx_last_batch_seconds", "commit"] > 0
    assert found["lakeidx_held_batches",] == 0
    assert found["paimon_commit_last_commit_attempts",] == 1
    assert found["paimon_commit_last_commit_duration",] == 1000 * found["lakeidx_last_batch_seconds", "commit"]
    assert found["lakeidx_iceberg_snapshots_behind",] == 0
    assert ("lakeidx_newest_compaction_timestamp_seconds",) not in found
    table.compact(full=True)
    table.metadata.store.put(f"{table.uri}/metadata/version-hint.text", b"1")
    after = figures(metrics_text(lambda: [table]))
    assert after["lakeidx_newest_compaction_timestamp_seconds",] >= after["lakeidx_newest_batch_timestamp_seconds",]
    assert after["paimon_compaction_max_level0_file_count",] == 0
    assert after["paimon_commit_last_compaction_input_file_size",] == found["lakeidx_table_bytes",]
    assert after["paimon_commit_last_compaction_output_file_size",] == after["lakeidx_table_bytes",]
    assert after["lakeidx_iceberg_snapshots_behind",] == 2
    assert {name for name, *_ in after if name.startswith("paimon_")} == {snake(n) for n in PAIMONS}


def test_a_table_that_cannot_be_read_is_down_and_others_are_up(table: lakeidx.Table, tmp_path: Path) -> None:
    other = lakeidx.Table.create(tmp_path / "w" / "d.db" / "broken", SPEC)
    other.upsert([{"p": 0, "k": 0, "v": "a"}])
    for file in Path(other.uri, "manifest").iterdir():
        file.write_bytes(b"x")
    text = metrics_text(lambda: [table, lakeidx.Table.open(other.uri)])
    up = {
        s.labels["table"]: s.value
        for f in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for s in f.samples
        if s.name == "lakeidx_table_up"
    }
    assert up == {"t": 1, "broken": 0}


def test_the_command_prints_a_warehouse_or_writes_a_file(table: lakeidx.Table, tmp_path: Path) -> None:
    assert figures(call("metrics", tmp_path / "w").stdout)["lakeidx_table_rows",] == 12
    file = tmp_path / "tables.prom"
    call("metrics", table.uri, "-o", file)
    assert figures(file.read_text())["lakeidx_table_rows",] == 12
    assert [f.name for f in tmp_path.glob("*.prom*")] == ["tables.prom"]
    assert call("metrics", tmp_path / "none", code=2).stderr.count("\n") == 1


def test_scrapes_are_answered_on_this_machine_only(table: lakeidx.Table) -> None:
    with pytest.raises(InvalidInputError, match="on this machine only"):
        serve_metrics(lambda: [table], "0.0.0.0:9464", Event())
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInputError, match="cannot be served"):
            serve_metrics(lambda: [table], f"127.0.0.1:{port}", Event())
    stop = Event()
    served = Thread(target=serve_metrics, args=(lambda: [table], f"127.0.0.1:{port}", stop))
    served.start()
    try:
        for _ in range(100):
            try:
                text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
                break
            except OSError:
                stop.wait(0.05)
        assert "lakeidx_table_rows" in text
    finally:
        stop.set()
        served.join(10)
    assert not served.is_alive()


ROOT = Path(__file__).resolve().parents[3]


def test_alerts_and_the_dashboard_name_metrics_that_there_are(table: lakeidx.Table) -> None:
    table.compact(full=True)
    table.metadata.store.put(table.metadata.paths.consumer_path("reader"), b'{"nextSnapshot" : 2}')
    there = {name for name, *_ in figures(metrics_text(lambda: [table]))}
    for file in ("alerts.yaml", "dashboard.json"):
        text = (ROOT / "deploy" / "monitoring" / file).read_text(encoding="utf-8")
        named = set(re.findall(r"\b(?:lakeidx|paimon)_[a-z0-9_]+", text))
        assert named
        assert named <= there, file
        (yaml.safe_load if file.endswith("yaml") else json.loads)(text)
