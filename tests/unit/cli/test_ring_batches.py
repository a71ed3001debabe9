"""Batches through the whole pipeline between resizes: `lakeidx upsert`, `index resize`, `compact`, `scan`."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakeidx.batch.index_types import index_folder
from lakeidx.cli.main import app
from tests.kit.ring_table import RingTable


def _call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, f"{result.output} {result.exception}"
    return result.stdout


@pytest.mark.slow
def test_batches_and_resizes_through_the_command_line(tmp_path: Path) -> None:
    table = RingTable(tmp_path)
    table.index_dir = index_folder(table.handle.paths)
    uri, rng = table.handle.uri, random.Random(4)
    resized = 0
    for step in range(6):
        lines, touched = [], {}
        for _ in range(25):
            p, k = rng.choice([1, 2]), f"k{rng.randrange(40)}"
            touched[p, k] = None if rng.random() < 0.2 else f"v{step}-{k}"
            lines.append({"p": p, "k": k, "v": touched[p, k], "_kind": "-D" if touched[p, k] is None else "+U"})
        rows = tmp_path / f"{step}.jsonl"
        rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
        _call("upsert", uri, rows, "--batch-id", f"b{step}")
        for key, value in touched.items():
            if value is None:
                table.rows.pop(key, None)
            else:
                table.rows[key] = value
        table.check()
        size = "1 b" if step % 2 == 0 else "1 gb"
        done = json.loads(_call("index", "resize", uri, "--target-size", size))
        resized += done["splits"] + done["merges"]
        table.check()
        if step == 2:
            _call("compact", uri, "--full")
            table.check()
    assert resized >= 8
    found = [json.loads(line) for line in _call("scan", uri).splitlines()]
    assert {(r["p"], r["k"]): r["v"] for r in found} == table.rows
