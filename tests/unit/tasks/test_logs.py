"""Logs as JSON: each line has the table, batch, stage and snapshot that it is about, also from threads of a runner."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

import lakeidx
from lakeidx.errors import InvalidInputError
from lakeidx.tasks.logs import JsonLines, logged, print_logs
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import table_spec

SPEC = table_spec("k INT", ["k"], options={"bucket": "-1"})


@pytest.fixture
def lines() -> Iterator[StringIO]:
    text = StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("lakeidx")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield text
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_threads_log_what_their_runner_is_about(lines: StringIO) -> None:
    with logged(table="t", batch="b"):
        LocalRunner(4).map(lambda n: logging.getLogger("lakeidx.x").info("task %d", n), range(8))
    logging.getLogger("lakeidx.x").info("after")
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [f.get("table") for f in found] == ["t"] * 8 + [None]
    assert sorted(f["message"] for f in found[:8]) == [f"task {n}" for n in range(8)]


def test_an_error_is_in_its_line(lines: StringIO) -> None:
    try:
        raise ValueError("no\nway")
    except ValueError:
        logging.getLogger("lakeidx.x").exception("it failed")
    (line,) = lines.getvalue().splitlines()
    assert "ValueError: no" in json.loads(line)["error"]


def test_a_batch_says_its_table_id_and_snapshot(lines: StringIO, tmp_path: Path) -> None:
    table = lakeidx.Table.create(tmp_path / "d.db" / "t", SPEC)
    table.upsert([{"k": 1}], batch_id="monday")
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    # A first run may also say that it compiles kernels.
    found = [f for f in found if f["logger"].startswith("lakeidx.batch.")]
    assert {(f["table"], f["batch"]) for f in found} == {(table.uri, "monday")}
    stages = ["ingest", "bucket_assignment", "index_write", "commit", "commit"]
    assert [f["stage"] for f in found] == stages
    assert [f.get("snapshot") for f in found] == [None, None, None, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["option", "variable"])
def test_the_command_line_logs_json(tmp_path: Path, by: str) -> None:
    table = lakeidx.Table.create(tmp_path / "d.db" / "t", SPEC)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"k": 1}\n')
    environment = {**os.environ, **({"LAKEIDX_LOG_FORMAT": "json"} if by == "variable" else {})}
    base = [sys.executable, "-m", "lakeidx.cli.main", *(["--log-format", "json"] if by == "option" else [])]
    good = subprocess.run(
        [*base, "upsert", table.uri, str(rows), "--batch-id", "b"], capture_output=True, text=True, env=environment
    )
    assert good.returncode == 0, good.stderr
    found = [json.loads(line) for line in good.stderr.splitlines()]
    assert {(f["table"], f["batch"]) for f in found if f["logger"].startswith("lakeidx.batch.")} == {(table.uri, "b")}
    assert [f["stage"] for f in found if f["logger"] == "lakeidx.batch.artifacts"] == [
        "ingest", "bucket_assignment", "index_write", "commit"
    ]  # fmt: skip
    assert found[-1]["snapshot"] == 1
    bad = subprocess.run([*base, "upsert", table.uri, "nothing.csv"], capture_output=True, text=True, env=environment)
    assert bad.returncode == 2
    (line,) = bad.stderr.splitlines()
    assert json.loads(line)["level"] == "ERROR"


def test_another_format_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="text or json, not 'xml'"):
        print_logs("xml")
