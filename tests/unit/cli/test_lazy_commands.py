"""Help and completion list commands without importing them; what they list is what the commands say of themselves."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lakeidx.cli
from lakeidx.cli.context import report_errors
from lakeidx.cli.lazy import Command, Group, build
from lakeidx.cli.main import COMMANDS, SECTIONS, app

HEAVY = ("pyarrow", "numba", "numpy", "sqlglot", "rich", "lakeidx.api", "pandas", "scipy.linalg")


def entries(commands: Mapping[str, Command | Group], prefix: str = "") -> Iterator[tuple[str, Command]]:
    for name, entry in commands.items():
        if isinstance(entry, Group):
            yield from entries(entry.commands, f"{prefix}{name} ")
        else:
            yield prefix + name, entry


TABLE = dict(entries(COMMANDS))


def imported_by(arguments: str, looked_for: Sequence[str] = HEAVY, **environment: str) -> tuple[str, set[str]]:
    """What a command line prints, and which heavy modules are imported when it ends."""
    program = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print(*[m for m in {tuple(looked_for)!r} if m in sys.modules], file=sys.stderr))\n"
        f"sys.argv = ['lakeidx', *{arguments.split()!r}]\n"
        "from lakeidx.cli.main import app\n"
        "app(prog_name='lakeidx')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, set(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["--help", "-h", "--version", "table --help", "index -h"])
def test_help_imports_nothing_heavy(arguments: str) -> None:
    printed, heavy = imported_by(arguments)
    assert printed
    assert heavy == set()


@pytest.mark.slow
def test_completion_imports_nothing_heavy() -> None:
    words = {"_LAKEIDX_COMPLETE": "complete_bash", "COMP_WORDS": "lakeidx table ", "COMP_CWORD": "2"}
    printed, heavy = imported_by("", **words)
    assert printed.split() == ["create", "show", "alter", "list", "drop", "rename"]
    assert heavy == set()


@pytest.mark.slow
def test_commands_do_not_import_pandas() -> None:
    """Making an Arrow array imports pandas, which takes a second: no module makes one when it is imported."""
    modules = sorted({e.module for e in TABLE.values()})
    program = "; ".join([*(f"import lakeidx.cli.{m}" for m in modules), "import sys; print('pandas' in sys.modules)"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_help_is_the_first_paragraph_of_the_docstring() -> None:
    printed = CliRunner().invoke(app, ["tag", "--help"]).stdout
    assert "Give a tag another name." in printed
    for name, entry in TABLE.items():
        function = getattr(import_module(f"lakeidx.cli.{entry.module}"), entry.function)
        assert entry.help
        assert entry.help in " ".join(function.__doc__.split()), name


def test_every_command_of_the_package_is_in_the_table() -> None:
    """Functions that turn errors into one line are commands: each is in the table, and in one place of it."""
    wrapper = report_errors(lambda: None).__code__
    found = []
    folder = Path(lakeidx.cli.__path__[0])
    for file in folder.rglob("*.py"):
        place = ".".join(file.relative_to(folder).with_suffix("").parts)
        module = import_module(f"lakeidx.cli.{place}")
        for name, member in inspect.getmembers(module, inspect.isfunction):
            if member.__code__ is wrapper and inspect.unwrap(member).__module__ == module.__name__:
                found.append((place, name))
    assert sorted((e.module, e.function) for e in TABLE.values()) == sorted(found)


@pytest.mark.parametrize("words", [["tabel"], ["table", "creat"]])
def test_an_unknown_command_is_wrong_usage_and_gets_a_suggestion(words: list[str]) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert f"No such command '{words[-1]}'" in result.stderr
    assert "Did you mean" in result.stderr


@pytest.mark.parametrize("words", [[], ["table"], ["index"], ["hudi"]])
def test_a_group_alone_shows_its_help(words: list[str]) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert ("Commands:" if words else "Write rows:") in result.output


@pytest.mark.parametrize("name", TABLE)
def test_every_command_takes_json(name: str) -> None:
    function = getattr(import_module(f"lakeidx.cli.{TABLE[name].module}"), TABLE[name].function)
    option = inspect.signature(function, eval_str=True).parameters["as_json"].annotation.__metadata__[0]
    assert "--json" in (option.default, *option.param_decls)


def test_every_command_is_in_one_section_of_the_help() -> None:
    placed = [name for names in SECTIONS.values() for name in names]
    assert sorted(placed) == sorted(COMMANDS)
    printed = CliRunner().invoke(app, ["--help"]).stdout
    assert all(f"{title}:" in printed for title in SECTIONS)


@pytest.mark.parametrize("name", TABLE)
def test_the_help_has_examples_that_are_right(name: str) -> None:
    command = build(name, TABLE[name])
    examples = inspect.cleandoc(command.examples).splitlines()
    assert examples, f"lakeidx {name} has no section Examples: in its docstring"
    for line in examples:
        words = shlex.split(re.sub(r"<\(.*\)", "keys.jsonl", line).rpartition(" | ")[2])
        start = ["lakeidx", *name.removesuffix(" list" if "list" not in words else "").split()]
        assert words[: len(start)] == start
        command.make_context(name, words[len(start) :])
    printed = CliRunner().invoke(app, [*name.split(), "--help"]).stdout
    assert f"Examples:\n  {examples[0]}" in printed
    assert not re.search(r"<(str|int|float|list|path)", printed)
