"""The documentation site: built strictly, with links and anchors checked, and complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from lakeidx.key_index.hbase.options import HBaseOptions
from lakeidx.options.table_options import OPTIONS
from tools.docs.commands_page import commands_page
from tools.docs.docstrings import markdown, rows_of
from tools.docs.options_page import options_page
from tools.docs.pipeline_page import pipeline_page

ROOT = Path(__file__).resolve().parents[2]


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(site),
        "-f",
        str(root / "mkdocs.yml"),
    ]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_shows_every_error_and_method(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    errors = (tmp_path / "site/reference/errors/index.html").read_text(encoding="utf-8")
    declared = re.findall(
        r"^class (\w+Error)\(", (ROOT / "lakeidx/errors.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(declared) - {"LakeIdxError"} <= set(re.findall(r"\w+Error", errors))
    api = unescape((tmp_path / "site/reference/python-api/index.html").read_text(encoding="utf-8"))
    modules = ((ROOT / f"lakeidx/api/{name}.py").read_text(encoding="utf-8") for name in ("table", "maintenance"))
    source = "\n".join(
        re.split(
            r"^def ", re.split(r"^class (?:Table|Maintenance)\b", text, flags=re.MULTILINE)[1], flags=re.MULTILINE
        )[0]
        for text in modules
    )
    methods = re.findall(r"^    def ([a-z]\w+)\(", source, re.MULTILINE)
    assert len(methods) > 15
    assert {m for m in methods if f"Table.{m}" not in api} == set()


@pytest.mark.slow
def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("[nowhere](gone.md) [there](index.md#no-such-heading)\n", encoding="utf-8")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    kept = re.sub(r"^(nav|hooks|exclude_docs):(.*\n)(?:[ -].*\n)*", "", settings, flags=re.MULTILINE)
    (tmp_path / "mkdocs.yml").write_text(kept, encoding="utf-8")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "gone.md" in done.stderr
    assert "no-such-heading" in done.stderr


def test_the_options_page_has_a_row_for_every_option() -> None:
    shown = set(re.findall(r"^\| `([^`]+)`", options_page(), re.MULTILINE))
    assert {o.key for o in (*OPTIONS, *HBaseOptions.declared())} <= shown


def test_the_options_page_shows_defaults_as_they_are_written() -> None:
    page = options_page()
    # From Paimon's documentation of its options.
    for key, default in (
        ("dynamic-bucket.target-row-num", "`2000000`"),
        ("target-file-size", "not set"),
        ("manifest.target-file-size", "`8 mb`"),
        ("snapshot.time-retained", "`1 h`"),
    ):
        row = re.search(rf"^\| `{re.escape(key)}`.*$", page, re.MULTILINE)
        assert row is not None
        assert default in row[0], row[0]


@pytest.mark.slow
def test_the_commands_page_has_every_command_the_help_names() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lakeidx.cli.main", "--help"], capture_output=True, text=True, check=True
    )
    names = re.findall(r"^  (?!lakeidx)(\w[\w-]*) ", done.stdout.partition("-h, --help")[2], re.MULTILINE)
    assert len(names) > 10
    page = commands_page()
    assert [n for n in names if not re.search(rf"^## lakeidx {re.escape(n)}\b", page, re.MULTILINE)] == []


@pytest.mark.parametrize("file", ["flights.yaml", "weather.yaml"])
def test_the_pipeline_page_has_the_keys_that_pipelines_use(file: str) -> None:
    text = (ROOT / "pipelines" / file).read_text(encoding="utf-8")
    top = re.findall(r"^(\w+):", text, re.MULTILINE)
    assert len(top) > 5
    page = pipeline_page()
    assert [key for key in top if f"| `{key}` |" not in page] == []


def test_the_pipeline_page_shows_no_inside_of_pydantic() -> None:
    assert "Undefined" not in pipeline_page()
    assert "| `tags` | mapping | none |" in pipeline_page()


def test_docstrings_become_markdown() -> None:
    text = """Do it.

    With ``code`` and a < b.

    rows     what goes in,
             on two lines
    a, b     both

    =====  ===========
    bytes  content
    =====  ===========
    4      a | b
           more
    =====  ===========
    """
    assert markdown(text) == (
        "Do it.\n\nWith `code` and a &lt; b.\n\n"
        "|  |  |\n|---|---|\n| `rows` | what goes in, on two lines |\n| `a, b` | both |\n\n"
        "| bytes | content |\n|---|---|\n| 4 | a \\| b more |"
    )
    assert rows_of(text) == {"rows": "what goes in, on two lines", "a": "both", "b": "both"}
