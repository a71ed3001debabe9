"""Kernels that come compiled with the wheel.

A wheel may hold sets of compiled kernels, a file each in the folder ``compiled`` beside this module. A set is for one version of
Python, of Numba and llvmlite, and one kind of machine; its code is for the processors of `BASELINES`. A kernel that is not on disk
is taken from the set that fits; without one, or on a processor that lacks something, it is compiled as ever. Code compiled for the
processor at hand (``lakeidx warm-up``) is found first: it is faster where it uses wider vectors.

A set is a ZIP file; each entry is what Numba's own cache would keep, under the name that `entry_name` gives, which no kernel of
another source has. `tests.shipped_kernels` makes sets and puts them into a wheel.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import pickle
import platform
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import llvmlite
import numba
from llvmlite import binding
from numba.core import config

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent / "compiled"


@dataclass(frozen=True)
class Baseline:
    """Processors that a set is compiled for.

    cpu        LLVM's name of them
    features   LLVM's names of what code for them may use; a processor without one of these gets code of its own
    """

    cpu: str
    features: tuple[str, ...]


_X86_64_V2 = "cmov cx8 fxsr mmx sse sse2 cx16 sahf popcnt sse3 ssse3 sse4.1 sse4.2 crc32"
_X86_64_V3 = f"{_X86_64_V2} avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave"
#: By what `platform.machine` says. The second level of x86-64 that has vectors of 256 bits: Intel since 2013, AMD since 2015.
BASELINES = {
    "x86_64": Baseline("x86-64-v3", tuple(_X86_64_V3.split())),
    "aarch64": Baseline("generic", ("fp-armv8", "neon")),
}


class _State:
    """Whether this process takes code from the sets."""

    asked = True


_STATE = _State()


def set_name() -> str:
    """Return the file name of the set for this interpreter: all that its code depends on but the processor and the sources."""
    made_with = f"numba-{numba.__version__}-llvmlite-{llvmlite.__version__}"
    return f"{sys.implementation.cache_tag}-{sys.platform}-{platform.machine()}-{made_with}.zip"


def entry_name(function: Callable[..., Any], signature: Any) -> str:
    """Return the name of a kernel in its set, for the Numba types of its arguments; different sources have different names."""
    key = repr(signature).encode() + _source_digest(inspect.getfile(function))
    return f"{function.__module__}.{function.__qualname__}-{hashlib.sha256(key).hexdigest()}"


def find(function: Callable[..., Any], signature: Any) -> tuple[Any, ...] | None:
    """Return a kernel's code for the Numba types of its arguments, in Numba's parts; None when no set that fits has it."""
    packed = _packed(entry_name(function, signature)) if _STATE.asked and _fitting() is not None else None
    return None if packed is None else pickle.loads(packed)  # noqa: S301 (code of the package itself)


@contextmanager
def ignored() -> Iterator[None]:
    """Leave shipped kernels aside, to compile for the processor at hand."""
    _STATE.asked = False
    try:
        yield
    finally:
        _STATE.asked = True


def why_none() -> str:
    """Return why none of the sets that came with lakeidx fits; empty when one does, and when none came."""
    if not FOLDER.is_dir() or _fitting() is not None:
        return ""
    if not (FOLDER / set_name()).exists():
        return f"lakeidx came with none for {set_name().removesuffix('.zip')}"
    return f"those that came with lakeidx are for other processors than this one ({binding.get_host_cpu_name()})"


@cache
def _fitting() -> Path | None:
    """Return the file of the set for this interpreter and processor."""
    baseline, path = BASELINES.get(platform.machine()), FOLDER / set_name()
    # Who names a processor for Numba gets code for it. Numba sets its variables at run time.
    named = vars(config)["CPU_NAME"] or vars(config)["CPU_FEATURES"] is not None
    if baseline is None or named or not path.exists():
        return None
    has = binding.get_host_cpu_features()
    return path if all(has.get(feature) for feature in baseline.features) else None


@cache
def _opened(path: Path) -> ZipFile | None:
    try:
        # Wholly in memory: processes that fork share the position in an open file.
        return ZipFile(BytesIO(path.read_bytes()))
    except (OSError, BadZipFile) as error:
        log.warning("%s cannot be read (%s): kernels are compiled; install lakeidx again", path, error)
        return None


def _packed(name: str) -> bytes | None:
    """Return the entry of a kernel; None when the set has none for these types."""
    path = _fitting()
    opened = None if path is None else _opened(path)
    try:
        return None if opened is None else opened.read(name)
    except KeyError:
        return None
    except (BadZipFile, zlib.error) as error:
        log.warning("%s is damaged (%s): kernels are compiled; install lakeidx again", path, error)
        return None


@cache
def _source_digest(file: str) -> bytes:
    return hashlib.sha256(Path(file).read_bytes()).digest()
