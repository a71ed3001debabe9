"""CALL: upkeep under the names and arguments of Paimon's procedures, each by the call of `lakeidx.Table` that does it.

source   org.apache.paimon.spark.procedure, release 1.4.2
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from lakeidx.api.history import milliseconds
from lakeidx.api.sql.grammar import Call, read_call
from lakeidx.api.sql.names import Places
from lakeidx.api.sql.query import QueryResult
from lakeidx.api.sql.statement import Statement, statements
from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError, LakeIdxError, did_you_mean
from lakeidx.results import Result
from lakeidx.table.times import epoch_ms

if TYPE_CHECKING:
    from lakeidx.api.warehouse import Warehouse

_Arguments = Mapping[str, Any]


#: Argument of what takes something away, beside Paimon's: what it would do.
_DRY = {"dry_run": bool}


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure.

    parameters   kinds of the arguments by name, in their order, without the table, which is the first of each
    required     those that must be given
    run          does it to a table, and gives what it did
    """

    parameters: Mapping[str, type]
    run: Callable[[Table, _Arguments], Any]
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class ProcedureResult(Result):
    """Outcome of a procedure on a table; `rows`: one for each tag, branch or other thing that it was about."""

    rows: tuple[Mapping[str, Any], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return what was done, of several things as ``rows``."""
        return dict(self.rows[0]) if len(self.rows) == 1 else {"rows": list(self.rows)}


def run_procedure(table: Table, name: str, given: _Arguments) -> ProcedureResult:
    """Run a procedure on a table, with its arguments by name; InvalidInputError for others."""
    procedure = PROCEDURES.get(name)
    if procedure is None:
        raise InvalidInputError(f"there is no procedure {name!r}; {_instead(name)}")
    wrong = [n for n, value in given.items() if type(value) is not procedure.parameters.get(n)]
    lacking = [n for n in procedure.required if n not in given]
    if wrong or lacking:
        takes = ", ".join(f"{n} ({kind.__name__})" for n, kind in procedure.parameters.items()) or "nothing"
        said = f"{lacking[0]} is missing" if lacking else f"not {wrong[0]} = {given[wrong[0]]!r}"
        raise InvalidInputError(f"procedure {name} takes {takes}: {said}")
    return ProcedureResult(tuple(_rows(procedure.run(table, given))))


def _rows(done: Any) -> list[dict[str, Any]]:
    return [one if isinstance(one, dict) else one.as_dict() for one in (done if isinstance(done, list) else [done])]


def _dry(given: _Arguments) -> bool:
    return bool(given.get("dry_run", False))


def _call(verb: Callable[..., Any], **names: str) -> Callable[[Table, _Arguments], Any]:
    """Return what calls a verb of a table; `names`: those that the verb gives its arguments, where they are others."""

    def run(table: Table, given: _Arguments) -> Any:
        return verb(table, **{names.get(n, n): value for n, value in given.items()})

    return run


def _compact(table: Table, given: _Arguments) -> Any:
    strategy = str(given.get("compact_strategy", "full")).lower()
    if strategy not in ("full", "minor"):
        raise InvalidInputError(f"compact_strategy is full or minor, not {strategy!r}")
    partitions = [p for p in str(given.get("partitions", "")).split(";") if p.strip()]
    return table.compact(full=strategy == "full", partitions=partitions or None, dry_run=_dry(given))


def _compact_manifest(table: Table, given: _Arguments) -> Any:
    from lakeidx.maintenance.compaction import compact_manifests

    return {"snapshots": list(compact_manifests(table.metadata))}


def _age(moment: str) -> str:
    """Return the time that has passed since a moment, as options of lakeidx write it."""
    age = int(time.time() * 1000) - epoch_ms(moment)
    if age < 0:
        raise InvalidInputError(f"older_than is a time of the past, not {moment}")
    return f"{age} ms"


def _expire_snapshots(table: Table, given: _Arguments) -> Any:
    kept = None if "older_than" not in given else _age(given["older_than"])
    return table.expire(
        retain_max=given.get("retain_max"), retain_min=given.get("retain_min"), retain_time=kept, dry_run=_dry(given)
    )


#: Options by the arguments that stand in their place.
_PARTITION_OPTIONS = {
    "timestamp_formatter": "partition.timestamp-formatter",
    "timestamp_pattern": "partition.timestamp-pattern",
    "expire_strategy": "partition.expiration-strategy",
    "max_expires": "partition.expiration-max-num",
}


def _expire_partitions(table: Table, given: _Arguments) -> Any:
    from lakeidx.maintenance.partitions.drop import expire_partitions

    age = None if "expiration_time" not in given else milliseconds(given["expiration_time"])
    options = {option: str(given[name]) for name, option in _PARTITION_OPTIONS.items() if name in given}
    return expire_partitions(table, older_than_ms=age, options=options, dry_run=_dry(given))


def _drop_partition(table: Table, given: _Arguments) -> Any:
    named = [p for p in str(given.get("partitions", "")).split(";") if p.strip()]
    return table.drop_partitions(named or None, where=given.get("where"), dry_run=_dry(given))


def _mark_partition_done(table: Table, given: _Arguments) -> Any:
    return table.mark_done([p for p in str(given["partitions"]).split(";") if p.strip()], dry_run=_dry(given))


def _remove_orphan_files(table: Table, given: _Arguments) -> Any:
    age = "1 d" if "older_than" not in given else _age(given["older_than"])
    return table.orphans(older_than=age, remove=not _dry(given))


def _create_tag_from_watermark(table: Table, given: _Arguments) -> Any:
    marks = ((s.id, s.watermark) for s in table.metadata.snapshots() if s.watermark is not None)
    found = next((number for number, mark in marks if mark >= given["watermark"]), None)
    if found is None:
        raise InvalidInputError(f"no snapshot has a watermark at or after {given['watermark']}", path=table.uri)
    return table.create_tag(given["tag"], snapshot=found, retain=given.get("time_retained"))


def _replace_tag(table: Table, given: _Arguments) -> Any:
    if given["tag"] not in {row["tag"] for row in table.tags()}:
        raise InvalidInputError(f"there is no tag {given['tag']!r} to replace")
    kept = given.get("time_retained")
    return table.create_tag(given["tag"], snapshot=given.get("snapshot"), retain=kept, replace=True)


def _delete_tag(table: Table, given: _Arguments) -> Any:
    names = [n.strip() for n in str(given["tag"]).split(",")]
    known = {row["tag"] for row in table.tags()}
    wrong = next((n for n in names if n not in known), None)
    if wrong is not None:
        raise InvalidInputError(f"there is no tag {wrong!r}; {did_you_mean(wrong, known)}")
    return [table.delete_tag(n, dry_run=_dry(given)) for n in names]


def _expire_tags(table: Table, given: _Arguments) -> Any:
    """Delete the tags whose time is over, and those made before `older_than`: as Java, by their file where they do not say when."""
    from lakeidx.format.data_file import local_ms_of_epoch
    from lakeidx.format.tag import now_local_ns
    from lakeidx.table.expiration.read import read_tags

    tags, metadata = read_tags(table.metadata), table.metadata
    old = [n for n, tag in tags.items() if tag.is_expired(now_local_ns())]
    if "older_than" in given:
        before = epoch_ms(given["older_than"])
        written = {f.name: f.mtime_ms for f in metadata.store.list(metadata.paths.tag_dir)}
        for name, tag in tags.items():
            made = tag.create_time_ns
            ms = written.get(f"tag-{name}") if made is None else made // 1_000_000
            limit = before if made is None else local_ms_of_epoch(before)
            old += [name] if name not in old and ms is not None and ms < limit else []
    for name in old:
        table.delete_tag(name, dry_run=_dry(given))
    return {"expired_tags": old, "dry_run": _dry(given)}


def _delete_branch(table: Table, given: _Arguments) -> Any:
    return [table.delete_branch(n.strip(), dry_run=_dry(given)) for n in str(given["branch"]).split(",")]


def _rollback(table: Table, given: _Arguments) -> Any:
    if len(given.keys() - _DRY) != 1:
        raise InvalidInputError("name one state: version, snapshot or tag")
    if "version" not in given:
        return table.rollback(snapshot=given.get("snapshot"), tag=given.get("tag"), dry_run=_dry(given))
    is_tag = given["version"] in {row["tag"] for row in table.tags()}
    state = {"tag": given["version"]} if is_tag else {"to": given["version"]}
    return table.rollback(**state, dry_run=_dry(given))


def _clear_consumers(table: Table, given: _Arguments) -> Any:
    wanted = _pattern(given.get("including_consumers", ".*"))
    kept = _pattern(given.get("excluding_consumers", "(?!)"))
    found = [str(c["consumer"]) for c in table.consumers()]
    cleared = [c for c in found if wanted.fullmatch(c) and not kept.fullmatch(c)]
    for consumer in cleared:
        table.delete_consumer(consumer, dry_run=_dry(given))
    return {"deleted": cleared}


def _trigger_tags(table: Table, _: _Arguments) -> Any:
    from lakeidx.table.expiration.automatic_tags import make_automatic_tags

    return {"tags": make_automatic_tags(table.metadata, table.schema)}


PROCEDURES: dict[str, Procedure] = {
    "compact": Procedure({"partitions": str, "compact_strategy": str, **_DRY}, _compact),
    "compact_manifest": Procedure({}, _compact_manifest),
    "expire_snapshots": Procedure({"retain_max": int, "retain_min": int, "older_than": str, **_DRY}, _expire_snapshots),
    "expire_partitions": Procedure(
        {
            "expiration_time": str,
            "timestamp_formatter": str,
            "timestamp_pattern": str,
            "expire_strategy": str,
            "max_expires": int,
            **_DRY,
        },
        _expire_partitions,
    ),
    "drop_partition": Procedure({"partitions": str, "where": str, **_DRY}, _drop_partition),
    "release_batch": Procedure({"batch": str}, _call(Table.release_batch, batch="batch_id"), ("batch",)),
    "discard_batch": Procedure({"batch": str, **_DRY}, _call(Table.discard_batch, batch="batch_id"), ("batch",)),
    "mark_partition_done": Procedure({"partitions": str, **_DRY}, _mark_partition_done, ("partitions",)),
    "create_tag": Procedure(
        {"tag": str, "snapshot": int, "time_retained": str},
        _call(Table.create_tag, tag="name", time_retained="retain"),
        ("tag",),
    ),
    "create_tag_from_timestamp": Procedure(
        {"tag": str, "timestamp": int, "time_retained": str},
        _call(Table.create_tag, tag="name", time_retained="retain"),
        ("tag", "timestamp"),
    ),
    "create_tag_from_watermark": Procedure(
        {"tag": str, "watermark": int, "time_retained": str}, _create_tag_from_watermark, ("tag", "watermark")
    ),
    "rename_tag": Procedure(
        {"tag": str, "target_tag": str}, _call(Table.rename_tag, tag="name", target_tag="to"), ("tag", "target_tag")
    ),
    "replace_tag": Procedure({"tag": str, "snapshot": int, "time_retained": str}, _replace_tag, ("tag",)),
    "delete_tag": Procedure({"tag": str, **_DRY}, _delete_tag, ("tag",)),
    "expire_tags": Procedure({"older_than": str, **_DRY}, _expire_tags),
    "create_branch": Procedure({"branch": str, "tag": str}, _call(Table.create_branch, branch="name"), ("branch",)),
    "delete_branch": Procedure({"branch": str, **_DRY}, _delete_branch, ("branch",)),
    "fast_forward": Procedure({"branch": str, **_DRY}, _call(Table.fast_forward, branch="name"), ("branch",)),
    "rollback": Procedure({"version": str, "snapshot": int, "tag": str, **_DRY}, _rollback),
    "rollback_to_as_latest": Procedure(
        {"tag": str, "snapshot_id": int, **_DRY},
        _call(partial(Table.rollback, keep_history=True), snapshot_id="snapshot"),
    ),
    "rollback_to_timestamp": Procedure({"timestamp": int, **_DRY}, _call(Table.rollback), ("timestamp",)),
    "rollback_to_watermark": Procedure({"watermark": int, **_DRY}, _call(Table.rollback), ("watermark",)),
    "remove_orphan_files": Procedure({"older_than": str, **_DRY}, _remove_orphan_files),
    "reset_consumer": Procedure(
        {"consumerid": str, **_DRY}, _call(Table.delete_consumer, consumerid="id"), ("consumerid",)
    ),
    "clear_consumers": Procedure({"including_consumers": str, "excluding_consumers": str, **_DRY}, _clear_consumers),
    "trigger_tag_automatic_creation": Procedure({}, _trigger_tags),
    "rewrite_file_index": Procedure({}, _call(Table.rebuild_index)),
}
#: Takes ``database.*`` for all tables of a database, as in Paimon.
_WHOLE_DATABASE = "remove_orphan_files"
#: Compacts the tables of these databases and names, all but those that are excluded: regular expressions of whole names.
COMPACT_DATABASE = "compact_database"
_DATABASES = Procedure(
    {"including_databases": str, "including_tables": str, "excluding_tables": str, "compact_strategy": str, **_DRY},
    _compact,
)
_OF_FUNCTIONS = "functions and views are Spark's: its own statements make and drop them"
_OF_APPEND_TABLES = "it is for tables without a primary key, whose files lakeidx leaves as they are"
#: Procedures of Paimon that lakeidx does not have, and what does their work.
_ELSEWHERE = {
    COMPACT_DATABASE: "compact does it for one table; `lakeidx sql` and Warehouse.sql have it, too",
    "rename_branch": "create_branch makes one under the other name at a tag, and delete_branch ends the old one",
    "merge_branch": "fast_forward brings a branch into a table without later commits; else INSERT INTO t SELECT * FROM t$branch_b",
    "purge_files": "TRUNCATE TABLE t, then expire_snapshots with retain_max => 1; DROP TABLE t deletes it with its files",
    "rescale": "ALTER TABLE t SET TBLPROPERTIES ('bucket' = '8'), then INSERT OVERWRITE t SELECT * FROM t",
    "materialize_deletion_vectors": "compact writes files anew, without the rows that vectors delete",
    "migrate_table": "CREATE TABLE t TBLPROPERTIES ('primary-key' = '…') AS SELECT * FROM parquet.`folder/*.parquet`",
    "migrate_database": "CREATE TABLE t TBLPROPERTIES ('primary-key' = '…') AS SELECT … for each table",
    "copy": "CREATE TABLE u LIKE t, then INSERT INTO u SELECT * FROM t",
    "repair": "a warehouse is a folder: what is in it is there, and no metastore has to learn of it",
    "repair_earliest_snapshot": "expire_snapshots and every reader find the earliest snapshot by themselves",
    "remove_unexisting_files": "`lakeidx verify` names files that are gone; rollback goes to a state that has all of its files",
    **dict.fromkeys(
        ("compact_chain_table", "create_global_index", "drop_global_index", "reassign_row_id", "refresh_object_table"),
        _OF_APPEND_TABLES,
    ),
    **dict.fromkeys(("create_function", "alter_function", "drop_function", "alter_view_dialect"), _OF_FUNCTIONS),
}


def call(statement: Statement, places: Places, warehouse: Warehouse | None) -> QueryResult:
    """Run a CALL; the result has a row for each table, with what was done."""
    asked = read_call(statement)
    if asked.procedure == COMPACT_DATABASE and warehouse is not None:
        procedure, given = _DATABASES, _arguments(statement, asked, _DATABASES.parameters, ())
        tables = [warehouse.table(n) for n in _matching(warehouse, given)]
        if not tables:
            raise statement.error(f"no table of {warehouse.uri} has such a name", statement.find([COMPACT_DATABASE]))
    else:
        procedure = _procedure(statement, asked.procedure)
        kinds, required = {"table": str, **procedure.parameters}, ("table", *procedure.required)
        given = _arguments(statement, asked, kinds, required)
        tables = _tables(statement, asked, given.pop("table"), places, warehouse)
    rows = []
    for table in tables:
        rows += [{"table": table.uri, **row} for row in _rows(procedure.run(table, given))]
    return QueryResult.of(as_rows(rows))


def _procedure(statement: Statement, name: str) -> Procedure:
    """Return a procedure of a table; InvalidInputError saying what does the work of one that there is not."""
    if name in PROCEDURES:
        return PROCEDURES[name]
    raise statement.error(f"there is no procedure sys.{name}; {_instead(name)}", statement.find([name]))


def _instead(name: str) -> str:
    return _ELSEWHERE.get(name) or did_you_mean(name, PROCEDURES)


def _matching(warehouse: Warehouse, given: dict[str, Any]) -> list[str]:
    """Take the patterns of names out of arguments, and return the tables that they are for."""
    patterns = {"including_databases": ".*", "including_tables": ".*", "excluding_tables": "(?!)"}
    of, wanted, kept = (_pattern(given.pop(name, default)) for name, default in patterns.items())
    names = warehouse.tables()
    return [n for n in names if of.fullmatch(n.partition(".")[0]) and wanted.fullmatch(n) and not kept.fullmatch(n)]


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidInputError(f"not a regular expression: {error}") from None


def _arguments(
    statement: Statement, asked: Call, kinds: Mapping[str, type], required: tuple[str, ...]
) -> dict[str, Any]:
    """Return the arguments by name, each of its kind."""
    if len(asked.positional) > len(kinds):
        raise statement.error(f"sys.{asked.procedure} takes {', '.join(kinds)}")
    given = dict(zip(kinds, asked.positional, strict=False))
    for name, value in asked.named.items():
        if name not in kinds:
            said = f"sys.{asked.procedure} takes {', '.join(kinds)}, not {name}"
            raise statement.error(said, asked.tokens[name])
        if name in given:
            raise statement.error(f"argument {name} is there twice", asked.tokens[name])
        given[name] = value
    given = {k: v for k, v in given.items() if v is not None}
    for name, value in given.items():
        kind = kinds[name]
        # A number is a text where that names a version, or epoch milliseconds where a time is wanted; never the other way.
        if kind is str and type(value) is int:
            given[name] = str(value)
        elif type(value) is not kind:
            words = {str: "a text", int: "a number", bool: "true or false"}
            raise statement.error(f"{name} is {words[kind]}, not {value!r}", asked.tokens.get(name))
    for name in required:
        if name not in given:
            raise statement.error(f"sys.{asked.procedure} needs {name} => ...", statement.find([asked.procedure]))
    return given


def _tables(statement: Statement, asked: Call, name: str, places: Places, warehouse: Warehouse | None) -> list[Table]:
    at = asked.tokens.get("table")
    if name.endswith(".*") and asked.procedure == _WHOLE_DATABASE and warehouse is not None:
        found = [warehouse.table(n) for n in warehouse.tables(name.removesuffix(".*"))]
        if not found:
            raise statement.error(f"there is no table in {name.removesuffix('.*')}", at)
        return found
    try:
        (inner,) = statements(name)
        node = inner.parse(exp.Table)
        return [places.table(inner, node)]
    except LakeIdxError as error:
        said = error.message.partition(": ")[2] if error.message.startswith("line ") else error.message
        error.message = statement.error(said, at).message
        raise


def as_rows(rows: list[dict[str, Any]]) -> pa.Table:
    """Return results as Arrow: numbers, texts and truth values as they are, others as JSON."""

    def plain(value: Any) -> Any:
        if value is None or isinstance(value, (str, int, float, bool)):
            return value
        return json.dumps(value, ensure_ascii=False, default=str)

    names = list(dict.fromkeys(n for r in rows for n in r))
    return pa.table({n: pa.array([plain(r.get(n)) for r in rows]) for n in names})
