"""Stages as jobs of a pipeline that holds batches: limits stop the commit, and checks are judged before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeidx import Table
from lakeidx.jobs import bucket_assignment, checks, commit, index_write, ingest

FILE = """table: d.t
warehouse: {folder}/wh
landing: {{path: {folder}, pattern: "*.csv"}}
fields: [{{name: id, type: BIGINT}}, {{name: v, type: STRING}}]
primaryKeys: [id]
options: {{bucket: -1}}
{more}
"""
Run = Callable[[str, str], tuple[int, str]]


def runs(folder: Path, more: str, capsys: pytest.CaptureFixture[str]) -> Run:
    file = folder / "t.yaml"
    file.write_text(FILE.format(folder=folder, more=more), encoding="utf-8")

    def run(job: str, batch: str) -> tuple[int, str]:
        name, _, flag = job.partition(" ")
        mains = {
            "ingest": ingest,
            "assign": bucket_assignment,
            "write": index_write,
            "commit": commit,
            "checks": checks,
        }
        landing = [f"{folder}/{batch}.csv"] if name == "ingest" else []
        words = ["--pipeline", str(file), "--batch-id", batch, "--engine", "local", *([flag] if flag else []), *landing]
        code = mains[name].main(words)
        out = capsys.readouterr()
        return code, out.err or out.out

    return run


def land(folder: Path, batch: str, rows: int) -> None:
    (folder / f"{batch}.csv").write_text("\n".join(["id,v", *(f"{n},{batch}" for n in range(rows))]), encoding="utf-8")


def test_a_commit_beyond_a_limit_is_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = runs(tmp_path, "limits: {updates: 50%}", capsys)
    for batch, rows in (("a", 10), ("b", 8)):
        land(tmp_path, batch, rows)
        assert [run(stage, batch)[0] for stage in ("ingest", "assign", "write")] == [0, 0, 0]
        code, said = run("commit", batch)
        assert code == (0 if batch == "a" else 2), said
    assert said.startswith("batch_held: batch 'b' of ")
    table = Table.open(f"{tmp_path}/wh/d.db/t")
    assert [b["batch"] for b in table.held_batches()] == ["b"]


def test_checks_of_a_batch_that_is_not_published_see_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = runs(tmp_path, "publish: after_checks", capsys)
    land(tmp_path, "a", 10)
    assert [run(stage, "a")[0] for stage in ("ingest", "assign", "write")] == [0, 0, 0]
    code, said = run("checks --unpublished", "a")
    report = json.loads(said)
    assert code == 0
    assert report["keys"] == 10
    assert all(r["passed"] for r in report["results"])
    code, said = run("commit", "a")
    assert code == 2
    assert "checks are judged in Dagster" in said
    assert not Table.open(f"{tmp_path}/wh/d.db/t").snapshots()
