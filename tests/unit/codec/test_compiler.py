from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.base import BaseContext
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

from lakeidx.cli.context import report_errors
from lakeidx.codec import compiler, shipped
from lakeidx.codec.compiler import KernelCache, njit, with_cache
from lakeidx.codec.hashes import fast_hash
from lakeidx.testing.limits import HANGS_SECONDS

ROOT = Path(__file__).resolve().parents[3]
FUNCTION = fast_hash._rotate.py_func
X, BITS = np.uint64(0x8000000000000001), 4
ROTATED = 0x18


def compilation_of(module: str) -> SimpleNamespace:
    """What Numba says when it begins to compile a function of a module."""
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})


def test_the_first_compilation_of_a_process_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=compiler.__name__)
    word = compiler._Word()
    word.on_start(compilation_of("somebody.elses"))
    assert caplog.messages == []
    for module in ("lakeidx.codec.cursor", "lakeidx.data.parquet.pages"):
        word.on_start(compilation_of(module))
        word.on_end(compilation_of(module))
    assert len(caplog.messages) == 1
    assert "lakeidx warm-up" in caplog.messages[0]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_command_says_on_a_terminal_that_it_compiles(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    report_errors(lambda: compiler._Word().on_start(compilation_of("lakeidx.codec.cursor")))()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("lakeidx: compiling kernels") is terminal


def test_only_kernels_are_given_a_cache() -> None:
    assert isinstance(vars(with_cache(njit(FUNCTION)))["_cache"], KernelCache)
    assert with_cache(FUNCTION) is FUNCTION


def test_what_was_compiled_is_found_without_preparing_to_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "none")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    prepared: list[bool] = []
    refresh = BaseContext.refresh

    def prepare(self: BaseContext) -> None:
        prepared.append(True)
        refresh(self)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(BaseContext, "refresh", prepare)

    def kernel() -> Dispatcher:
        return with_cache(njit(cache=True)(FUNCTION))  # type: ignore[no-any-return]

    first = kernel()
    assert first(X, BITS) == ROTATED
    assert prepared
    prepared.clear()
    again = kernel()
    assert again(X, BITS) == ROTATED
    assert prepared == []
    assert sum(again.stats.cache_hits.values()) == 1
    assert str(again.stats.cache_path).startswith(str(tmp_path))


def test_a_disk_that_fails_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: FunctionCache, sig: Any, target_context: Any) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(FunctionCache, "_load_overload", fails)
    with pytest.raises(OSError, match="Input/output error"):
        with_cache(njit(cache=True)(FUNCTION))(X, BITS)


PROGRAM = """
import sys
NEEDLESS = ("coverage", "numba.np.linalg", "numba.typed.dictimpl")
import numpy as np
from lakeidx.codec.hashes.fast_hash import _rotate
print(int(_rotate(np.uint64(0x8000000000000001), 4)), [m for m in NEEDLESS if m in sys.modules])
"""


@pytest.mark.slow
def test_a_new_process_imports_nothing_that_only_compiling_needs() -> None:
    fast_hash._rotate(X, BITS)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS
    )
    assert (done.returncode, done.stdout) == (0, f"{ROTATED} []\n"), done.stderr
