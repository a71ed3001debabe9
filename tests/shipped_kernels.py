"""Compiled kernels for wheels: ``python -m tests.shipped_kernels dist/*.whl``.

Compiles the kernels of a wheel for the processors that `lakeidx.codec.shipped` names and puts them into the wheel, for this version
of Python, of Numba and llvmlite, and this kind of machine. A wheel takes a set of each interpreter and machine that it is given to
by turns, a minute each. ``make dist`` begins with the one at hand.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from lakeidx.codec.shipped import BASELINES, FOLDER, set_name
from tests.kernel_list import kept_kernels

WARM_UP = ("-m", "lakeidx.cli.main", "warm-up", "--no-progress")
#: Sources may be imported from a wheel's folder.
IN_PACKAGE = f"lakeidx/codec/{FOLDER.name}"


def add_set(wheel: Path, program: Sequence[str] = WARM_UP) -> str:
    """Put the set of this interpreter and machine into a wheel, in the place of the one that it has; return its name there.

    program   arguments of Python: what compiles the kernels that the set holds
    """
    with tempfile.TemporaryDirectory() as folder:
        tree, made, whole = Path(folder, "tree"), Path(folder, "set.zip"), Path(folder, wheel.name)
        with ZipFile(wheel) as archive:
            archive.extractall(tree)
        _make_set(tree, made, program)
        shutil.copyfile(wheel, whole)
        name = f"{IN_PACKAGE}/{set_name()}"
        _with_file(wheel, whole, name, made.read_bytes())
        shutil.copyfile(whole, wheel)
    return name


def _make_set(tree: Path, out: Path, program: Sequence[str]) -> None:
    """Compile the kernels of the package in a folder; write the set."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "NUMBA_CPU_NAME": BASELINES[platform.machine()].cpu,
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tree.with_name("kernels")),
    }
    subprocess.run([sys.executable, *program], cwd=tree, env=variables, check=True, stdout=subprocess.DEVNULL)
    # In the same surroundings: sources and cache are those of the wheel. This module is from here.
    variables["PYTHONPATH"] += f"{os.pathsep}{Path(__file__).resolve().parents[1]}"
    subprocess.run(
        [sys.executable, "-m", "tests.shipped_kernels", "--collect", str(out)], cwd=tree, env=variables, check=True
    )


def _collect(out: Path) -> None:
    """Write what Numba has kept for the package that is imported here."""
    from lakeidx.codec.shipped import entry_name

    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for kernel, signature, data in kept_kernels():
            archive.writestr(entry_name(kernel.py_func, signature), data.read_bytes(), compresslevel=9)


def _with_file(source: Path, out: Path, name: str, content: bytes) -> None:
    """Copy a wheel with one file more, or instead of the one of that name, and with its line in RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with ZipFile(source) as old, ZipFile(out, "w", ZIP_DEFLATED) as new:
        for item in old.infolist():
            if item.filename == name:
                continue
            data = old.read(item)
            if item.filename.endswith(".dist-info/RECORD"):
                lines = [line for line in data.decode().splitlines() if not line.startswith(f"{name},")]
                data = "\n".join([*lines, f"{name},sha256={digest},{len(content)}", ""]).encode()
            new.writestr(item, data)
        new.writestr(name, content, compress_type=ZIP_STORED)


def main(argv: list[str]) -> int:
    """Run the command line."""
    if argv[:1] == ["--collect"]:
        _collect(Path(argv[1]))
        return 0
    for wheel in map(Path, argv):
        print(f"{wheel}: {add_set(wheel)}, {wheel.stat().st_size / 1e6:.1f} MB with it", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
