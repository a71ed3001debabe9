"""One product, three faces: what the command line can do, `Table` and `Warehouse` can, and the other way round."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

import lakeidx
from lakeidx.cli.main import app

#: Each command and the method behind it; a function of a module where there is no table to hold.
COMMANDS = {
    "table create": "Table.create",
    "table show": "Table.describe",
    "table alter": "Table.alter",
    "table list": "Warehouse.list",
    "table drop": "Warehouse.drop",
    "upsert": "Table.upsert_files",
    "delete": "Table.delete",
    "scan": "Table.scan",
    "changes": "Table.changes",
    "diff": "Table.diff",
    "tail": "Table.follow",
    "lookup": "Table.lookup",
    "keys": "Table.keys",
    "snapshots": "Table.snapshots",
    "files": "Table.files",
    "buckets": "Table.buckets",
    "index list": "Table.index_files",
    "index rebuild": "Table.rebuild_index",
    "index resize": "Table.resize_rings",
    "compact": "Table.compact",
    "expire": "Table.expire",
    "orphans": "Table.orphans",
    "tag create": "Table.create_tag",
    "tag delete": "Table.delete_tag",
    "tag list": "Table.tags",
    "consumer list": "Table.consumers",
    "consumer delete": "Table.delete_consumer",
    "rollback": "Table.rollback",
    "verify": "Table.verify",
    "lookup-store": "Table.build_lookup_store",
    "advise": "Table.advise",
    "inspect": "lakeidx.inspect.files.inspect_file",
    "hudi tag": "lakeidx.key_index.hudi_table.table.tag_hudi_table",
    "warm-up": "lakeidx.maintenance.warm_up.warm_up",
}
#: Methods that need no command: rows in memory, opening, and what the ones above are made of.
ONLY_PYTHON = {
    "Table.open", "Table.upsert", "Table.overwrite", "Warehouse.table", "Warehouse.tables", "Warehouse.databases",
    "Warehouse.path", "Warehouse.create", "Table.upsert_changes",
}  # fmt: skip


def commands(group: Any, prefix: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield prefix + name


def verbs(cls: type) -> set[str]:
    return {
        f"{cls.__name__}.{name}"
        for name, member in inspect.getmembers(cls)
        if not name.startswith("_") and (inspect.isfunction(member) or inspect.ismethod(member))
    }


def test_every_command_has_a_method_and_every_method_a_command() -> None:
    assert set(commands(typer.main.get_command(app))) == set(COMMANDS)
    methods = verbs(lakeidx.Table) | verbs(lakeidx.Warehouse)
    named = {m for m in COMMANDS.values() if not m.startswith("lakeidx.")}
    assert named | ONLY_PYTHON == methods


def test_errors_and_types_come_from_the_package() -> None:
    for name in lakeidx.__all__:
        assert getattr(lakeidx, name) is not None
    assert {n for n in dir(lakeidx.errors) if n.endswith("Error") and n[0].isupper()} <= set(dir(lakeidx)) | {"OSError"}
