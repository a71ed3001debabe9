"""Help and completion list commands without importing them; what they list is what the commands say of themselves."""

from __future__ import annotations

import inspect
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lakeidx.cli
from lakeidx.cli.context import report_errors
from lakeidx.cli.lazy import Command, Group, build, help_of
from lakeidx.cli.main import COMMANDS, app
from lakeidx.testing.small_tables import make_table

HEAVY = ("pyarrow", "numba", "numpy", "sqlglot", "rich", "lakeidx.api", "pandas", "scipy.linalg")


def entries(commands: Mapping[str, Command | Group], prefix: str = "") -> Iterator[tuple[str, Command]]:
    for name, entry in commands.items():
        if isinstance(entry, Group):
            yield from entries(entry.commands, f"{prefix}{name} ")
        else:
            yield prefix + name, entry


TABLE = dict(entries(COMMANDS))


#: What neither a batch nor a scan does: the other verbs of a table, and what only they, other stores or other tables need.
OTHER_VERBS = (
    *("lakeidx.api.table", "lakeidx.api.upkeep", "lakeidx.api.warehouse", "lakeidx.inspect", "lakeidx.pipeline_file"),
    *("lakeidx.lookup.build", "lakeidx.lookup.sort_store.file", "lakeidx.storage.s3.store", "rich.progress"),
    *("lakeidx.data.engines.aggregation", "lakeidx.data.engines.partial_update", "lakeidx.file_index.kinds.bitmap"),
)
#: What a batch of a few rows does not do besides, in a table with index type ``hash`` that needs no compaction.
OF_OTHER_BATCHES = (
    *("lakeidx.batch.assignment.in_tasks", "lakeidx.batch.before_images", "lakeidx.landing.cdc.reader", "numpy.random"),
    *("lakeidx.compaction.rewrite", "lakeidx.maintenance.compaction"),
    *(f"lakeidx.key_index.{name}" for name in ("bloom", "bucket.bucket_index", "hbase", "simple", "state")),
)
#: What a scan does not do besides.
OF_BATCHES = (
    "lakeidx.api.writing",
    "lakeidx.compaction",
    "lakeidx.landing.read",
    "lakeidx.lookup",
    "lakeidx.key_index",
)


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
    assert printed.split() == ["create", "show", "alter", "list", "drop"]
    assert heavy == set()


@pytest.mark.slow
def test_help_of_commands_imports_nothing_heavy() -> None:
    """Of all commands, in one process."""
    program = (
        "import sys\n"
        "from lakeidx.cli.main import app\n"
        f"for words in {[name.split() for name in TABLE]!r}:\n"
        "    app([*words, '--help'], prog_name='lakeidx', standalone_mode=False)\n"
        f"print(*[m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.count("Usage: lakeidx ") == len(TABLE)
    assert done.stderr.split() == []


def shown(command: object, name: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        command.main(["-h"], f"lakeidx {name}", standalone_mode=False, help_option_names=["-h", "--help"])  # type: ignore[attr-defined]
    return out.getvalue()


@pytest.mark.parametrize("columns", ["60", "80", "200"])
@pytest.mark.parametrize("name", TABLE)
def test_help_without_a_command_is_the_command_s_own(name: str, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    entry = TABLE[name]
    written = help_of(name, entry)
    assert written is not None, "python -m docs.generate"
    assert shown(written, name) == shown(build(name, entry), name)


def test_a_command_that_is_not_in_the_file_of_help_has_none_there() -> None:
    assert help_of("later", Command("read_commands", "later", "")) is None


@pytest.mark.slow
def test_help_among_other_words_imports_the_command() -> None:
    printed, heavy = imported_by("scan lake/db.db/t --help")
    assert "--where" in printed
    assert "pyarrow" in heavy


@pytest.mark.slow
def test_commands_do_not_import_pandas() -> None:
    """Making an Arrow array imports pandas, which takes a second: no module makes one when it is imported."""
    modules = sorted({e.module for e in TABLE.values()})
    program = "; ".join([*(f"import lakeidx.cli.{m}" for m in modules), "import sys; print('pandas' in sys.modules)"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", TABLE)
def test_the_table_has_the_help_of_the_command(name: str) -> None:
    entry = TABLE[name]
    function = getattr(import_module(f"lakeidx.cli.{entry.module}"), entry.function)
    paragraph = inspect.cleandoc(function.__doc__).partition("\n\n")[0]
    assert entry.help == " ".join(paragraph.split())


def test_every_command_of_the_package_is_in_the_table() -> None:
    """Functions that turn errors into one line are commands: each is in the table, and in one place of it."""
    wrapper = report_errors(lambda: None).__code__
    found = []
    for file in Path(lakeidx.cli.__path__[0]).glob("*.py"):
        module = import_module(f"lakeidx.cli.{file.stem}")
        for name, member in inspect.getmembers(module, inspect.isfunction):
            if member.__code__ is wrapper and inspect.unwrap(member).__module__ == module.__name__:
                found.append((file.stem, name))
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
    assert "Commands:" in result.output


@pytest.mark.slow
def test_a_batch_and_a_scan_import_neither_pandas_nor_linear_algebra(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    landing = tmp_path / "b.csv"
    landing.write_text("p,k,v\n1,1,a\n1,2,b\n", encoding="utf-8")
    for arguments in (f"upsert {table.uri} {landing}", f"scan {table.uri}"):
        printed, heavy = imported_by(arguments)
        assert printed
        assert not heavy & {"pandas", "scipy.linalg", "sqlglot", "numba"}
        assert "pyarrow" in heavy


@pytest.mark.slow
def test_a_batch_and_a_scan_import_their_own_verbs_only(tmp_path: Path) -> None:
    """Importing all that lakeidx does takes longer than the work on a few rows."""
    table = make_table(tmp_path / "t")
    landing = tmp_path / "b.csv"
    landing.write_text("p,k,v\n1,1,a\n1,2,b\n", encoding="utf-8")
    assert imported_by(f"upsert {table.uri} {landing}", OTHER_VERBS + OF_OTHER_BATCHES)[1] == set()
    assert imported_by(f"scan {table.uri}", OTHER_VERBS + OF_BATCHES)[1] == set()


@pytest.mark.parametrize("name", TABLE)
def test_every_command_takes_json(name: str) -> None:
    function = getattr(import_module(f"lakeidx.cli.{TABLE[name].module}"), TABLE[name].function)
    option = inspect.signature(function, eval_str=True).parameters["as_json"].annotation.__metadata__[0]
    assert "--json" in (option.default, *option.param_decls)
