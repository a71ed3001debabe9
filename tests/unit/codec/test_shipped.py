"""Kernels that come with a wheel are used where they fit, and nowhere else."""

from __future__ import annotations

import inspect
import logging
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numba
import numpy as np
import pytest
from numba.core import config, event
from numba.core.caching import NullCache
from numba.core.serialize import dumps

from lakeidx.codec import shipped
from lakeidx.codec.compiler import njit, with_cache
from lakeidx.codec.hashes import fast_hash
from lakeidx.codec.shipped import BASELINES, Baseline, entry_name, ignored, set_name, why_none

FUNCTION = fast_hash._rotate.py_func
TYPES = (numba.uint64, numba.int64)
X, BITS = np.uint64(0x8000000000000001), 4
ROTATED = 0x18


@pytest.fixture(scope="module")
def code() -> bytes:
    """The kernel as Numba keeps it."""
    compiled = njit(nogil=True)(FUNCTION)
    compiled.compile(TYPES)
    return bytes(dumps(compiled.overloads[TYPES]._reduce()))  # type: ignore[no-untyped-call]


@pytest.fixture(autouse=True)
def folder(code: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of sets, with one for this interpreter and processor, that holds one kernel."""
    sets = tmp_path / "compiled"
    sets.mkdir()
    with ZipFile(sets / set_name(), "w") as archive:
        archive.writestr(entry_name(FUNCTION, TYPES), code)
    monkeypatch.setattr(shipped, "FOLDER", sets)
    monkeypatch.setitem(BASELINES, platform.machine(), Baseline("generic", ()))
    forget()
    yield sets
    forget()


def forget() -> None:
    shipped._fitting.cache_clear()
    shipped._opened.cache_clear()


def called() -> tuple[Any, int]:
    """What a kernel that is on no disk gives, and how many compilations that took."""
    kernel = with_cache(njit(nogil=True)(FUNCTION))
    with event.install_recorder("numba:compile") as recorder:
        result = kernel(X, BITS)
    # Each compilation has a beginning and an end.
    return result, len(recorder.buffer) // 2


def test_a_kernel_of_the_set_is_not_compiled() -> None:
    assert called() == (ROTATED, 0)
    assert why_none() == ""


def test_types_that_the_set_does_not_have_are_compiled() -> None:
    kernel = with_cache(njit(nogil=True)(FUNCTION))
    with event.install_recorder("numba:compile") as recorder:
        assert kernel(np.uint64(1), np.uint8(4)) == 16
    assert recorder.buffer


def test_a_processor_that_lacks_something_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BASELINES, platform.machine(), Baseline("later", ("instructions-of-2050",)))
    forget()
    assert called() == (ROTATED, 1)
    assert "other processors" in why_none()


def test_a_kind_of_machine_without_sets_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(BASELINES, platform.machine())
    forget()
    assert called() == (ROTATED, 1)


@pytest.mark.parametrize("module", ["numba", "llvmlite"])
def test_a_set_for_another_version_is_not_used_and_the_word_says_so(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getattr(shipped, module), "__version__", "9.9")
    forget()
    assert called() == (ROTATED, 1)
    assert why_none().startswith("lakeidx came with none for ")
    assert f"{module}-9.9" in why_none()


def test_who_names_a_processor_gets_code_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CPU_NAME", "generic")
    forget()
    assert called()[1] == 1


def test_a_source_that_differs_has_other_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "fast_hash.py"
    changed.write_bytes(Path(fast_hash.__file__).read_bytes() + b"#\n")
    name = entry_name(FUNCTION, TYPES)
    monkeypatch.setattr(inspect, "getfile", lambda function: str(changed))
    assert entry_name(FUNCTION, TYPES) != name
    assert called() == (ROTATED, 1)


def test_warming_up_leaves_the_set_aside() -> None:
    with ignored():
        assert called() == (ROTATED, 1)
    assert called() == (ROTATED, 0)


def test_the_disk_comes_first_and_keeps_what_is_compiled() -> None:
    asked: list[str] = []

    class Disk(NullCache):
        cache_path = "there"

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            asked.append("load")

        def save_overload(self, sig: Any, cres: Any) -> None:
            asked.append("save")

    kernel = njit(nogil=True)(FUNCTION)
    vars(kernel)["_cache"] = Disk()
    with_cache(kernel)
    assert kernel(X, BITS) == ROTATED
    assert (asked, kernel.stats.cache_path) == (["load"], "there")
    kernel(np.uint64(1), np.uint8(4))
    assert asked == ["load", "load", "save"]
    kernel.recompile()


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_set_is_said_and_not_used(damage: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = folder / set_name()
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[200:]
    else:
        data[300] ^= 1
    path.write_bytes(data)
    caplog.set_level(logging.WARNING, logger=shipped.__name__)
    assert called() == (ROTATED, 1)
    assert "install lakeidx again" in caplog.text


def test_without_sets_a_kernel_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "none")
    forget()
    assert called() == (ROTATED, 1)
    assert why_none() == ""
