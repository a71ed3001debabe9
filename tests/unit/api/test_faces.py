"""One product, three faces: what the command line can do, `Table` and `Warehouse` can, and the other way round."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import typer

import lakeidx
from lakeidx.api.merge import Merge
from lakeidx.api.reports import VerifyResult
from lakeidx.cli.inputs import landing_options
from lakeidx.cli.main import app
from lakeidx.key_index.hudi_table.table import HudiTagResult
from lakeidx.table.scan.changes import ChangeScan
from lakeidx.table.scan.table_scan import TableScan

#: Each command and the method behind it; a function of `lakeidx` where there is no table to hold.
COMMANDS = {
    "init": "lakeidx.init",
    "sql": "Warehouse.sql",
    "table create": "Table.create",
    "table show": "Table.describe",
    "table alter": "Table.alter",
    "table list": "Warehouse.list",
    "table drop": "Warehouse.drop",
    "table rename": "Warehouse.rename",
    "upsert": "Table.upsert_files",
    "load": "Table.load",
    "sync-database": "Warehouse.sync_database",
    "delete": "Table.delete",
    "update": "Table.update",
    "merge": "Table.merge",
    "batch list": "Table.held_batches",
    "batch show": "Table.held_batch",
    "batch release": "Table.release_batch",
    "batch discard": "Table.discard_batch",
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
    "metrics": "Table.metrics",
    "partition list": "Table.partitions",
    "partition drop": "Table.drop_partitions",
    "partition expire": "Table.expire_partitions",
    "partition mark-done": "Table.mark_done",
    "branch create": "Table.create_branch",
    "branch list": "Table.branches",
    "branch delete": "Table.delete_branch",
    "branch fast-forward": "Table.fast_forward",
    "tag create": "Table.create_tag",
    "tag rename": "Table.rename_tag",
    "tag delete": "Table.delete_tag",
    "tag list": "Table.tags",
    "consumer list": "Table.consumers",
    "consumer delete": "Table.delete_consumer",
    "rollback": "Table.rollback",
    "verify": "Table.verify",
    "lookup-store": "Table.build_lookup_store",
    "advise": "Table.advise",
    "inspect": "lakeidx.inspect_file",
    "hudi tag": "lakeidx.tag_hudi_table",
    "warm-up": "lakeidx.warm_up",
}
#: Methods that need no command: rows in memory, opening, what the ones above are made of, and objects of other libraries.
ONLY_PYTHON = {
    "Table.open", "Table.upsert", "Table.overwrite", "Warehouse.table", "Warehouse.tables", "Warehouse.databases",
    "Warehouse.path", "Warehouse.create", "Table.file_system", "Table.system", "Table.branch", "Warehouse.system",
    "Table.create_in",
}  # fmt: skip


#: Options of the command line alone: how results are printed, and guards against a slip of the hand.
#: (--branch: a table is opened at one).
ONLY_SHELL = {"branch", "as_json", "row_format", "list_format", "diff_format", "advice_format", "output", "yes"}
#: Options that are another parameter, or one of its parts: (command or *, option) -> parameter.
PARAMETERS = {
    ("*", "partition"): "partitions", ("*", "no_progress"): "progress on_stage on_module", ("*", "row_format"): "",
    **{("*", option): "runner" for option in ("spark", "master", "remote", "threads")},
    **{(c, o): "options landing" for c in ("upsert", "load", "sync-database", "init")
       for o in inspect.signature(landing_options).parameters},
    **{("sync-database", o): "feed" for o in (
        "including_tables", "excluding_tables", "table_prefix", "table_suffix", "table_mapping", "primary_keys", "partition_keys",
        "types", "table_conf", "schema_changes")},
    ("sync-database", "warehouse"): "self", ("sql", "warehouse"): "self",
    ("metrics", "places"): "self", ("metrics", "listen"): "self", ("sql", "no_progress"): "runner",
    ("table create", "from_"): "rows", ("table create", "more"): "rows", ("table create", "key"): "primary_key",
    **{("advise", o): "needs" for o in ("moves", "other_writers", "stateless", "hbase")},
    **{("advise", o): "machine" for o in ("cores", "latency_ms")}, ("advise", "keys"): "batches keys",
    ("orphans", "yes"): "remove", ("orphans", "dry_run"): "remove", ("inspect", "file"): "path",
    ("changes", "states"): "after upto", ("tail", "follow"): "every", ("diff", "keys"): "columns",
    ("table create", "schema"): "spec", ("table create", "if_not_exists"): "exist_ok", ("table create", "table"): "uri",
    ("table alter", "not_null"): "nullable", ("table alter", "no_default"): "defaults", ("table alter", "set_"): "set",
    ("table alter", "plan"): "dry_run", ("table list", "warehouse"): "self", ("table drop", "table"): "name",
    ("table rename", "table"): "name",
    ("update", "assignments"): "set",
    **{("batch " + c, "batch"): "batch_id" for c in ("show", "release", "discard")},
    ("load", "settle"): "settle_seconds", ("load", "watch"): "every", ("advise", "what"): "self files", ("tail", "into"): "step",
}  # fmt: skip
#: Methods that do a command together with the one above: command -> method.
TOO = {
    "table create": "Table.create_from",
    "load": "Table.watch",
    "batch show": "Table.explain_batch",
    "advise": "Table.advise_files",
    "tail": "Table.upsert_changes",
}
#: Options that a method of what comes back does.
OF_WHAT_COMES_BACK = {
    ("scan", "explain"): (TableScan, "explain"),
    ("scan", "no_progress"): (TableScan, "batches"),
    ("diff", "limit"): (ChangeScan, "to_reader"),
    ("diff", "stat"): (ChangeScan, "stat"),
    ("merge", "when"): (Merge, "when"),
    **{
        ("merge", option): (Merge, "execute")
        for option in ("batch_id", "dry_run", "limits", "no_progress", "spark", "master", "remote", "threads")
    },
    ("verify", "fail_on"): (VerifyResult, "fails"),
    ("hudi tag", "metrics"): (HudiTagResult, "as_dict"),
}
#: Parameters without an option: what a process cannot be handed by its arguments.
ONLY_PARAMETERS = {
    "Table.scan": {"timestamp_ms"},  # another spelling
    "Table.follow": {"stop"},  # a signal on the command line
    "Table.watch": {"stop"},  # a signal on the command line
    # A copy by `tail --into` has the columns of its source: `table alter` makes them so.
    "Table.upsert_changes": {"missing", "merge_schema", "limits", "runner"},
    "Table.merge": {"aliases"},  # names for expressions
    "Warehouse.sql": {"sources", "runner"},  # rows in memory; Spark has lakeidx.spark.sql
    "Table.create": {"storage_options"},  # AWS_* variables
    "lakeidx.inspect_file": {"store", "limit"},
    "lakeidx.tag_hudi_table": {"storage_options"},
    "lakeidx.warm_up": {"packages", "processes"},
}


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield prefix + name, command


def behind(place: str) -> Callable[..., Any]:
    """The method or function behind a command: all are reached from `lakeidx` itself."""
    found: Any = lakeidx
    for part in place.removeprefix("lakeidx.").split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def verbs(cls: type) -> set[str]:
    return {
        f"{cls.__name__}.{name}"
        for name, member in inspect.getmembers(cls)
        if not name.startswith("_") and (inspect.isfunction(member) or inspect.ismethod(member))
    }


def test_every_command_has_a_method_and_every_method_a_command() -> None:
    assert {name for name, _ in commands(typer.main.get_command(app))} == set(COMMANDS)
    methods = verbs(lakeidx.Table) | verbs(lakeidx.Warehouse)
    assert {m for m in COMMANDS.values() if not m.startswith("lakeidx.")} | set(TOO.values()) | ONLY_PYTHON == methods


def test_every_option_has_a_parameter_and_every_parameter_an_option() -> None:
    for name, command in commands(typer.main.get_command(app)):
        place = COMMANDS[name]
        methods = [behind(place), *([behind(TOO[name])] if name in TOO else [])]
        parameters = {p for method in methods for p in inspect.signature(method).parameters} - {"cls"}
        reached: set[str] = {"self"}.union(*(ONLY_PARAMETERS.get(p, ()) for p in (place, TOO.get(name, ""))))
        for option in command.params:
            if (name, option.name) in OF_WHAT_COMES_BACK:
                returned, method = OF_WHAT_COMES_BACK[name, option.name]
                assert returned.__name__ in inspect.signature(behind(place)).return_annotation, name
                assert getattr(returned, method)
                continue
            means = PARAMETERS.get((name, option.name), PARAMETERS.get(("*", option.name), option.name)).split()
            means = ["self"] if option.name == "table" and "self" in parameters and means == ["table"] else means
            reached |= set(means)
            assert option.name in ONLY_SHELL or parameters & set(means), f"lakeidx {name}: {place} lacks {option.name}"
        assert parameters <= reached, f"{place}: no option of lakeidx {name} for {sorted(parameters - reached)}"


def test_errors_and_types_come_from_the_package() -> None:
    for name in lakeidx.__all__:
        assert getattr(lakeidx, name) is not None
    assert {n for n in dir(lakeidx.errors) if n.endswith("Error") and n[0].isupper()} <= set(dir(lakeidx)) | {"OSError"}
