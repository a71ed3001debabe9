"""What is checked of a pipeline's table, and the job that does it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import yaml

from lakeidx.api.table import Table
from lakeidx.jobs import checks
from lakeidx.pipeline_file import table_checks as of_table
from lakeidx.pipeline_file.model import PipelineConfig, load_pipeline
from lakeidx.pipeline_file.table_checks import table_results, verify_whole
from lakeidx.quality.whole_table import Verified, verify_table
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import table_fields, upsert


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "t.yaml"
    settings = {
        "table": "d.t",
        "warehouse": f"{tmp_path}/wh",
        "description": "A table of the tests.",
        "landing": {"path": f"{tmp_path}/landing"},
        "fields": table_fields("p INT, k BIGINT, v STRING"),
        "primary_keys": ["p", "k"],
        "partition_keys": ["p"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "10"},
    }
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.fixture
def config(file: Path) -> PipelineConfig:
    return load_pipeline(file)


@pytest.fixture
def table(config: PipelineConfig) -> Table:
    """15 keys in two buckets of a partition, 4 in one of another."""
    made = Table.create(config.uri, config.spec())
    upsert(made, [(1, k, "a") for k in range(15)] + [(2, k, "b") for k in range(4)], batch_id="b1")
    return Table.open(made.uri)


def damage(table: Table) -> None:
    """Cut the last hash off the index of partition 2."""
    (entry,) = [e for e in table.metadata.load_index_manifest(_index(table)) if e.row_count == 4]
    path = Path(table.uri) / "index" / entry.file_name
    path.write_bytes(path.read_bytes()[:-4])


def _index(table: Table) -> str | None:
    assert table.snapshot is not None
    return table.snapshot.index_manifest


def test_a_verification_resumes_where_it_was(
    config: PipelineConfig, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_table, "verify_table", partial(verify_table, rows_at_once=5))

    def stop(done: int, total: int) -> None:
        assert (done, total) == (1, 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify_whole(config, table, progress=stop)
    folder = Path(config.warehouse) / "_lakeidx" / "d" / "t" / "_verification"
    assert len(list(folder.iterdir())) == 1
    seen: list[int] = []
    found = verify_whole(config, table, runner=LocalRunner(2), progress=lambda done, _: seen.append(done))
    assert seen == [1, 2]
    assert list(folder.iterdir()) == []
    # Of a whole table at once there is nothing to keep.
    monkeypatch.undo()
    assert verify_whole(config, table) == found
    assert found.keys == 19


def test_what_a_run_has_touched(config: PipelineConfig, table: Table) -> None:
    damage(table)
    assert table.snapshot is not None
    places = sorted(load_view(table.metadata, table.snapshot).by_bucket())
    sound = table_results(config, table, buckets=places[:1])
    assert all(r.passed for r in sound.results)
    assert (sound.buckets, sound.index_hashes) == (1, 15)


def test_the_job_reports_what_it_found(file: Path, table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    whole = ["--pipeline", str(file), "--engine", "local"]

    def run(*arguments: str) -> tuple[int, Verified]:
        code = checks.main([*whole, *arguments])
        return code, Verified.from_json(json.loads(capsys.readouterr().out))

    code, sound = run()
    assert (code, sound.keys, sound.snapshot_id) == (0, 19, 1)
    code, touched = run("--batch-id", "b1")
    assert code == 0
    assert [r.name for r in touched.results if r.name not in [s.name for s in sound.results]] == [
        "staged_rows_committed"
    ]
    damage(table)
    code, broken = run()
    assert code == 1
    assert {r.name for r in broken.results if not r.passed} >= {"index_files_agree"}
    assert checks.main(["--pipeline", f"{file}.none", "--engine", "local"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
