"""Kernels while Numba is put off: what runs in Python, what gets Numba, and that both give the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lakeidx.codec import deferred
from lakeidx.codec.deferred import StandIn, absent, declared, defer
from lakeidx.testing.limits import HANGS_SECONDS

ROOT = Path(__file__).resolve().parents[3]
#: Only called by others, which are compared.
WITHIN_OTHERS = {"_long", "_maybe", "_skip_maybes", "_mixed"}


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> deferred._State:
    """A process that has put Numba off."""
    out = deferred._State()
    out.deferring, out.left = True, 100
    monkeypatch.setattr(deferred, "_STATE", out)
    return out


def in_python(data: Any) -> str:
    return f"python {len(data)}"


def compiled(data: Any) -> str:
    return f"compiled {len(data)}"


def test_small_calls_run_in_python_until_there_is_more_to_do(state: deferred._State) -> None:
    kernel = declared(in_python, lambda: compiled, kernel=True, small=True)
    assert [kernel(np.zeros(60)), kernel(np.zeros(30)), kernel(np.zeros(11))] == [
        "python 60",
        "python 30",
        "compiled 11",
    ]
    assert kernel(b"abc") == "compiled 3"
    assert not state.deferring


def test_a_module_is_absent_for_one_thread_until_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "not_needed.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with absent("not_needed"):
        with pytest.raises(ModuleNotFoundError, match="not_needed is left out"):
            import_module("not_needed")
        with ThreadPoolExecutor(1) as other:
            module = other.submit(import_module, "not_needed").result()
        assert import_module("not_needed") is module
    monkeypatch.delitem(sys.modules, "not_needed")
    assert import_module("not_needed") is not module
    monkeypatch.delitem(sys.modules, "not_needed")


def test_a_kernel_that_is_not_small_is_compiled(state: deferred._State) -> None:
    kernel = declared(in_python, lambda: compiled, kernel=True)
    assert kernel(np.zeros(1)) == "compiled 1"
    assert not state.deferring


def test_compiling_puts_compiled_code_in_the_place_of_all(
    state: deferred._State, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, seen = ModuleType(f"{__name__}_1"), ModuleType(f"{__name__}_2"), []

    @contextmanager
    def surroundings() -> Iterator[None]:
        seen.append("in")
        yield
        seen.append("out")

    state.surroundings = surroundings
    for module in (first, second):
        module.kernel = declared(in_python, lambda: compiled, kernel=True, small=True)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    first.theirs = second.kernel  # type: ignore[attr-defined]
    first.helper = declared(lambda: "python", lambda: "a helper")  # type: ignore[attr-defined]
    assert first.helper() == "python"
    kept: StandIn = second.kernel
    state.packages = {__name__.partition(".")[0]}
    state.compile_all()
    assert (first.kernel, first.theirs, second.kernel, first.helper) == (compiled, compiled, compiled, "a helper")
    assert seen == ["in", "out"]
    # What somebody holds still works, and has what the compiled kernel has.
    assert kept(b"a") == "compiled 1"
    assert kept.__name__ == "compiled"
    assert declared(in_python, lambda: compiled, kernel=True, small=True) is compiled


def test_calls_from_within_a_call_cost_nothing_more(state: deferred._State) -> None:
    inner = declared(in_python, lambda: compiled, kernel=True, small=True)
    outer = declared(lambda data: inner(np.zeros(1000)), lambda: compiled, kernel=True, small=True)
    assert outer(np.zeros(10)) == "python 1000"
    assert state.left == 90


def test_python_wraps_as_machine_words_do(state: deferred._State) -> None:
    kernel = declared(lambda a: a[0] * a[0], lambda: compiled, kernel=True, small=True)
    assert kernel(np.full(1, 2**31 + 1, np.uint32)) == 1


def test_nothing_is_put_off_where_numba_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    state = deferred._State()
    monkeypatch.setattr(deferred, "_STATE", state)
    monkeypatch.setitem(sys.modules, "numba", ModuleType("numba"))
    defer()
    assert not state.deferring
    assert declared(in_python, lambda: compiled, kernel=True) is compiled


@pytest.mark.slow
def test_every_small_kernel_gives_in_python_what_it_gives_compiled(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.codec.small_kernels", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=HANGS_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    compared = {name.rpartition(".")[2] for name in done.stdout.split()}
    assert compared | WITHIN_OTHERS == set(_small())


def _small() -> Iterator[str]:
    for file in (ROOT / "lakeidx").rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and "small_kernel" in map(ast.unparse, node.decorator_list):
                yield node.name
