"""The page "Query it from Java ...": its program compiles with the released jar, and prints the rows of the page's table."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.docs.snippets import run_page
from tests.kit.java_tools import run_command, witness_classpath
from tools.docs.blocks import blocks

pytestmark = pytest.mark.interop
PAGE = "docs/query/jvm.md"


def test_the_program_prints_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(PAGE, tmp_path)  # makes the table
    (program,) = (b.code for b in blocks(PAGE) if b.language == "java")
    source = tmp_path / "Query.java"
    source.write_text(program, encoding="utf-8")
    printed = run_command(["java", "-cp", witness_classpath(), str(source), f"{tmp_path}/lake"])
    rows = [line.split(" ") for line in printed.splitlines() if line]
    assert sorted((int(i), Decimal(total)) for i, total in rows) == [(i, Decimal(i)) for i in range(30)]
