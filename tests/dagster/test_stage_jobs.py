"""The stage entries of jobs/: each in a process of its own, from the artifact of the stage before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from lakeidx.api.table import Table
from lakeidx.testing.limits import HANGS_SECONDS
from tests.dagster.pipelines import pipeline_dict

pytestmark = pytest.mark.dagster
ROOT = Path(__file__).parents[2]


def run(stage: str, folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "jobs/run.py", stage, "--pipeline", str(folder / "t.yaml"), "--batch-id", "b1"]
    return subprocess.run(
        [*command, "--engine", "local", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_SECONDS,
    )


def test_every_stage_works_alone_and_says_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(pipeline_dict(tmp_path)))
    landed = tmp_path / "a.parquet"
    pq.write_table(pa.table({"p": pa.array([1] * 25, pa.int32()), "k": range(25), "v": ["x"] * 25}), landed)
    early = run("bucket_assignment", tmp_path)
    assert early.returncode == 2
    assert early.stderr.startswith("not_found: ")
    assert early.stderr.count("\n") == 1
    reports = {}
    for stage in ("ingest", "bucket_assignment", "index_write", "commit"):
        done = run(stage, tmp_path, *([str(landed)] if stage == "ingest" else []))
        assert done.returncode == 0, done.stderr
        reports[stage] = json.loads(done.stdout)
    assert reports["ingest"]["rows_in"] == 25
    assert (reports["bucket_assignment"]["inserts"], reports["bucket_assignment"]["new_buckets"]) == (25, 3)
    assert reports["index_write"]["rows_written"] == 25
    assert reports["commit"]["snapshot_ids"] == [1]
    assert Table.open(f"{tmp_path}/wh/d.db/t").scan().to_arrow().num_rows == 25
