"""What README and docs tell people to type works: blocks run, command lines and imports exist, links lead somewhere."""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import re
from pathlib import Path

import pytest
import yaml

from lakeidx.pipeline_file.feed import FeedConfig
from lakeidx.pipeline_file.model import parse_pipeline
from lakeidx.plugins import CHANGE_FORMATS, INDEX_TYPES, TOOLS
from tests.docs.snippets import LANGUAGES, command_lines, pages, run_page, unknown_words
from tools.docs.blocks import ROOT, Block, blocks
from tools.docs.tour import PAGE as TOUR

PAGES = pages()
# The tour has a test of its own, which looks at what its blocks give, too.
WITH_CODE = [p for p in PAGES if p != TOUR and any(b.language in ("python", "sh") and not b.reason for b in blocks(p))]


def all_blocks(*languages: str) -> list[Block]:
    return [b for page in PAGES for b in blocks(page) if b.language in languages]


def test_every_block_says_its_language() -> None:
    wrong = [f"{b.place}: {b.language!r}" for p in PAGES for b in blocks(p) if b.language not in (*LANGUAGES, "setup")]
    assert not wrong, f"one of {LANGUAGES} must follow the three backticks"


def test_a_block_that_is_not_run_says_why() -> None:
    assert [b.place for b in all_blocks("python", "sh") if b.reason is not None and len(b.reason) < 20] == []


@pytest.mark.slow
def test_every_command_line_is_known() -> None:
    found = [(place, words) for page in PAGES for place, words in command_lines(page)]
    assert len(found) > 40
    assert [(place, unknown_words(words)) for place, words in found if unknown_words(words)] == []


def test_a_command_line_that_is_wrong_is_found() -> None:
    assert unknown_words(["scan", "TABLE", "--where", "a = 1", "--limt", "3"]) == ["--limt"]
    assert unknown_words(["tables", "create"]) == ["tables"]
    assert unknown_words(["index", "rebuild", "TABLE", "--drop"]) == []


def test_python_that_is_not_run_imports_what_there_is() -> None:
    for block in all_blocks("python"):
        for node in ast.walk(ast.parse(block.code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lakeidx"):
                module = importlib.import_module(node.module or "")
                names = {*getattr(module, "__all__", ()), *vars(module)}
                assert {a.name for a in node.names} <= names, block.place


def test_yaml_and_json_blocks_are_right() -> None:
    for block in all_blocks("json"):
        json.loads(block.code)
    for block in all_blocks("yaml"):
        if block.code.startswith("feed:"):
            FeedConfig.model_validate(yaml.safe_load(block.code))
        elif "\nlanding:" in block.code:
            parse_pipeline(block.code, path=block.place, environment={})
        else:
            yaml.safe_load(block.code)


def test_links_between_files_lead_somewhere() -> None:
    # The pages under docs/reference are made when the site is built, whose strict build looks at links to them.
    broken = []
    for page in [*PAGES, "CHANGELOG.md", "SECURITY.md"]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8")):
            if "://" in target or "reference/" in target:
                continue
            if not (ROOT / page).parent.joinpath(target).exists():
                broken.append(f"{page} -> {target}")
    assert broken == []


def test_files_that_pages_name_exist() -> None:
    missing = []
    for page in [*PAGES, "SECURITY.md"]:
        text = (ROOT / page).read_text(encoding="utf-8")
        for name in re.findall(
            r"`((?:lakeidx|tests|bench|dagster_project|jobs|deploy|pipelines|docs)/[\w./-]*)`", text
        ):
            # One slash after lakeidx is the name of a Dagster tag as often as a package.
            if (not name.startswith("lakeidx/") or "/" in name[8:]) and not (ROOT / name).exists():
                missing.append(f"{page}: {name}")
    assert missing == []


@pytest.mark.slow
def test_modules_and_names_that_pages_name_exist() -> None:
    missing = []
    for page in [*PAGES, "SECURITY.md"]:
        text = (ROOT / page).read_text(encoding="utf-8")
        for name in set(re.findall(r"`(lakeidx(?:\.\w+)+)`", text)):
            if not exists(name) and name not in (INDEX_TYPES, CHANGE_FORMATS, TOOLS):
                missing.append(f"{page}: {name}")
    assert missing == []


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            found: object = importlib.import_module(".".join(parts[:end]))
            for part in parts[end:]:
                found = getattr(found, part, None)
            return found is not None
    return False


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE)
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "work"
    directory.mkdir()
    monkeypatch.chdir(directory)
    assert run_page(page, directory) > 0
