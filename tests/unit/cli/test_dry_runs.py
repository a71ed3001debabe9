"""Every destructive command has ``--dry-run``, which writes nothing and says who loses what; then the command does it."""

from __future__ import annotations

import inspect
import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from lakeidx.cli.lazy import Command, Group
from lakeidx.cli.main import COMMANDS
from lakeidx.errors import BatchHeldError
from tests.kit.command_line import call

#: What changes or deletes what others may be reading, with its arguments after the table, and what its dry run says.
DESTRUCTIVE: dict[str, tuple[list[str], list[str]]] = {
    "table drop": ([], ["tag kept", "branch side", "consumer copy", "held batch waits", "tag branch_side"]),
    "table alter": (["--drop", "v"], ["drop"]),
    "branch delete": (["side"], ["consumer beside", '"snapshots"']),
    "branch fast-forward": (["side"], ["brought into the table"]),
    "partition drop": (
        ["--partition", "p=1"],
        ["tags keep them: branch_side, kept", "streams that have not read the rows yet will not: slow"],
    ),
    "partition expire": (["--older-than", "1 ms"], ["p=1", "p=2"]),
    "tag delete": (["branch_side"], ["branch side began at it", "until it expires"]),
    "consumer delete": (["copy"], ["copy"]),
    "rollback": (
        ["1"],
        ['"snapshots_gone"', "streams that have read later snapshots", "copy", "branches keep", "kept"],
    ),
    "expire": (["--retain-max", "1", "--retain-min", "1"], ['"snapshots": [']),
    "orphans": ([], ["data-0b6a6d9e-0000-4000-8000-000000000000-0.parquet"]),
    "batch discard": (["waits"], ["waits"]),
    "compact": (["--full"], ["buckets"]),
    "delete": (["--where", "k = 1"], ['"deletes": 2']),
    "update": (["--set", "v = 'x'"], ['"updates": 4']),
}
#: Of the commands that have a dry run, those that take nothing away.
ADDING = {"upsert", "merge", "index rebuild", "index resize", "partition mark-done"}


def every(commands: dict[str, Any], prefix: str = "") -> dict[str, Command]:
    found: dict[str, Command] = {}
    for name, command in commands.items():
        if isinstance(command, Group):
            found |= every(command.commands, f"{prefix}{name} ")  # type: ignore[arg-type]
        else:
            found[prefix + name] = command
    return found


@pytest.fixture
def table(tmp_path: Path) -> lakeidx.Table:
    fields = [{"name": n, "type": t} for n, t in (("p", "STRING"), ("k", "INT"), ("v", "STRING"))]
    options = {
        "bucket": "1",
        "partition.timestamp-formatter": "yyyyMMdd",
        "partition.expiration-strategy": "update-time",
    }
    made = lakeidx.Table.create(
        tmp_path / "d.db" / "t",
        {"fields": fields, "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": options},
    )
    for n in (1, 2):
        made.upsert([{"p": str(n), "k": k, "v": "a"} for k in (1, 2)])
    made.create_branch("side", snapshot=2)
    made.create_tag("kept", snapshot=2)
    for of, name in ((made, "copy"), (made.branch("side"), "beside")):
        for _ in of.follow("earliest", consumer=name):
            pass
    slow = made.follow("earliest", consumer="slow")
    next(slow), next(slow)
    slow.close()
    made.branch("side").upsert([{"p": "2", "k": 3, "v": "a"}])
    with pytest.raises(BatchHeldError):
        made.upsert([{"p": "1", "k": 9, "v": "b"}], batch_id="waits", limits="inserts=0")
    lost = tmp_path / "d.db" / "t" / "p=1" / "bucket-0" / "data-0b6a6d9e-0000-4000-8000-000000000000-0.parquet"
    lost.write_bytes(b"x")
    os.utime(lost, (1e9, 1e9))
    return made


def files(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("command", DESTRUCTIVE)
def test_a_dry_run_writes_nothing_and_says_who_loses_what(table: lakeidx.Table, tmp_path: Path, command: str) -> None:
    arguments, said = DESTRUCTIVE[command]
    before = files(tmp_path)
    result = call(*command.split(), table.uri, *arguments, "--dry-run", "--json")
    assert files(tmp_path) == before
    assert not [text for text in said if text not in result.output], result.output
    json.loads(result.stdout)


def test_there_is_no_other() -> None:
    def takes_dry_run(command: Command) -> bool:
        function = getattr(import_module(f"lakeidx.cli.{command.module}"), command.function)
        given = [
            getattr(p.annotation, "__metadata__", ())
            for p in inspect.signature(function, eval_str=True).parameters.values()
        ]
        return any(
            "--dry-run" in (getattr(option, "default", None), *(getattr(option, "param_decls", None) or ()))
            for options in given
            for option in options
        )

    assert {n for n, c in every(COMMANDS).items() if takes_dry_run(c)} == set(DESTRUCTIVE) | ADDING


@pytest.mark.parametrize("command", ["table drop", "branch delete", "partition drop"])
def test_nobody_is_asked_without_a_terminal(table: lakeidx.Table, tmp_path: Path, command: str) -> None:
    before = files(tmp_path)
    asked = [*command.split(), table.uri, *DESTRUCTIVE[command][0]]
    assert "nothing is done yet: --yes does it" in call(*asked, code=2).output
    assert files(tmp_path) == before
    call(*asked, "--yes")
    assert files(tmp_path) != before
