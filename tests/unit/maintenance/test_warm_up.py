"""Warming up leaves nothing for the first batch to compile."""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from numba.core import event

from lakeidx.maintenance.warm_up import LIST, listed, warm_up

ROOT = Path(__file__).parents[3]
_BATCH = """
import sys
from pathlib import Path
from numba.core import event
from tests.kit.small_tables import content, make_table, upsert
with event.install_recorder("numba:compile") as recorder:
    table = make_table(Path(sys.argv[1]))
    upsert(table, [(1, k, "a") for k in range(30)])
    upsert(table, [(1, k, "b") for k in range(15, 45)])
    assert len(content(table)) == 45
print(sorted({str(e.data["dispatcher"]) for _, e in recorder.buffer}))
"""


@pytest.mark.slow
def test_a_first_batch_after_it_compiles_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lakeidx.cli.main", "warm-up"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kernels"] == len(listed())
    batch = [sys.executable, "-c", _BATCH, str(tmp_path)]
    told = subprocess.run(batch, capture_output=True, text=True, check=True, cwd=ROOT)
    assert told.stdout.strip() == "[]"


def test_a_second_call_compiles_nothing() -> None:
    modules: list[str] = []
    chosen = ("lakeidx.data.parquet", "lakeidx.lookup.bloom")
    count = warm_up(modules.append, packages=chosen, processes=1)
    sizes = Counter(k.module for k in listed())
    assert [sizes[m] for m in modules] == sorted((sizes[m] for m in modules), reverse=True), "the longest come first"
    with event.install_recorder("numba:compile") as recorder:
        assert warm_up(packages=chosen, processes=1) == count
    assert not recorder.buffer


@pytest.mark.slow
def test_every_kernel_is_listed_with_as_many_types_as_it_has_parameters() -> None:
    assert {f"{k.module}.{k.function}" for k in listed()} == set(_kernels())
    for kernel in listed():
        assert len(kernel.arguments) == _kernels()[f"{kernel.module}.{kernel.function}"], kernel


def test_a_line_is_written_as_it_was_read() -> None:
    lines = [line for line in LIST.read_text().splitlines() if not line.startswith("#")]
    assert [str(kernel) for kernel in listed()] == lines == sorted(set(lines))


@functools.cache
def _kernels() -> dict[str, int]:
    return dict(_functions())


def _functions() -> Iterator[tuple[str, int]]:
    for file in (ROOT / "lakeidx").rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and any(_compiles(ast.unparse(d)) for d in node.decorator_list):
                module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
                yield f"{module}.{node.name}", len(node.args.args)


def _compiles(decorator: str) -> bool:
    return decorator == "kernel" or "cache=True" in decorator
