"""``lakeidx table create`` says what an index type cannot promise, and refuses options that do not go together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lakeidx.cli.main import app
from lakeidx.key_index.registry import index_types
from tests.kit.small_tables import SPEC

LIMITS = {t.name: t.limits for t in index_types()}


def _create(folder: Path, options: dict[str, str], keys: tuple[str, ...] = ("p", "k")) -> Result:
    file = folder / "spec.json"
    spec = {**SPEC, "primaryKeys": list(keys), "options": {"bucket": "-1", **options}}
    file.write_text(json.dumps(spec), encoding="utf-8")
    return CliRunner().invoke(app, ["table", "create", f"{folder}/wh/d.db/t", "--schema", str(file)])


@pytest.mark.parametrize("kind", sorted(LIMITS))
def test_limits_are_logged(tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    result = _create(tmp_path, {"index.type": kind, "hoodie.index.hbase.table": "t"})
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("created ")
    said = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert said == ([f"index type {kind}: {LIMITS[kind]}"] if LIMITS[kind] else [])


def test_limits_of_cross_partition_tables(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert _create(tmp_path, {}, ("k",)).exit_code == 0
    assert f"index type state: {LIMITS['state']}" in caplog.messages


@pytest.mark.parametrize(
    "options", [{"index.type": "bloom", "bucket": "4"}, {"index.type": "bloom-ish"}, {"index.type": "hbase"}]
)
def test_bad_combinations_make_no_table(tmp_path: Path, options: dict[str, str]) -> None:
    result = _create(tmp_path, options)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "index.type" in result.stderr
    assert not (tmp_path / "wh").exists()
