"""`make ui-demo` had lost its rule to an edit, and `make demo` had two recipes: make took the later one and only warned."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TASKS = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE).group(1).split()  # type: ignore[union-attr]


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_one_rule(task: str) -> None:
    done = subprocess.run(["make", "--dry-run", task], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_task_is_declared_and_listed_once() -> None:
    # A variable of one task stands behind its name, too.
    found = re.findall(r"^([a-z][a-z-]*):(.*)$", MAKEFILE, re.MULTILINE)
    rules = [task for task, rest in found if " := " not in rest and " ?= " not in rest]
    assert sorted(rules) == sorted(TASKS)
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^  make ([a-z-]+) ", listed, re.MULTILINE)
    assert names == [task for task in rules if task != "install-dev"], "a task without a text behind ##"
