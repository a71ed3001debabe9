"""Feeds of many tables: a file of messages is split by table once, then each table gets its part as a batch of its own.

A feed file is known by its path, size and time of change, and so is its batch in every table: a run that died between two
tables is made again, and goes on with those that lack theirs. The parts lie in ``<warehouse>/_lakeidx/<database>/_feeds/<file>``
until all tables have theirs. What the file has, ``split.json``, and lines that are of no table stay for a week.

Files of AWS DMS have rows of one table each, which their folders name: such a file is its own part.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lakeidx.api.inference.column_types import infer_types
from lakeidx.api.inference.samples import read_sample
from lakeidx.api.table import Table
from lakeidx.api.warehouse import Warehouse
from lakeidx.batch.artifacts import STAGING_DIR, SourceFile
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.landed_files import UNSAFE, batch_id_of, committed_by, describe_source, landing_store, mark_committed
from lakeidx.batch.stages.rejected_rows import RejectedRows, RejectWriter
from lakeidx.batch.stages.rerun import still_counts
from lakeidx.codec.containers.checksum import seal, unseal
from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError, RejectedRowsError
from lakeidx.landing.cast_rows import REJECT_SCHEMA
from lakeidx.landing.cdc.feed_split import PART, SplitTable, split_feed
from lakeidx.landing.cdc.op_column import DMS_COLUMN
from lakeidx.landing.changes import OTHER_TABLES, change_formats, message_formats
from lakeidx.landing.dms_files import file_order, table_of_folders
from lakeidx.landing.feed_options import FeedOptions
from lakeidx.landing.new_columns import grows, merge_policy
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.landing.types import BadLine, LandingOptions
from lakeidx.maintenance.landed_columns import MERGE_TRIES, others_were_faster, plan_new_columns, put_columns
from lakeidx.options.limits import GivenLimits
from lakeidx.results import Result
from lakeidx.storage import join
from lakeidx.tasks.runner import Runner
from lakeidx.types import DataType, parse_type

log = logging.getLogger(__name__)

#: Folder of the files that say of which table of the source a table is.
_CLAIMS = "_tables"
#: How long what is known of a feed file stays after it was last touched.
_KEPT_MS = 7 * 86_400_000


@dataclass(frozen=True, slots=True, repr=False)
class FeedResult(Result):
    """Outcome of a feed file.

    tables     by the name of the table, what its batch did; None: it had the file's rows already
    created    tables that were made
    skipped    messages that are rows of no chosen table, by what they are
    rejected   lines that are of no table; rows that tables rejected are in their results
    """

    file: str
    tables: Mapping[str, BatchResult | None] = field(default_factory=dict)
    created: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    rejected: RejectedRows = field(default_factory=RejectedRows)

    @property
    def rejected_rows(self) -> int:
        """Lines that are of no table, and rows that the tables rejected."""
        return self.rejected.rows + sum(b.rejected for b in self.tables.values() if b is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return the metrics, for scripts; `rejected`: of the file and of its tables."""
        return {
            "file": self.file,
            "tables": {n: {"already": True} if r is None else r.as_dict() for n, r in self.tables.items()},
            "created": list(self.created),
            "skipped": dict(self.skipped),
            "rejected": self.rejected_rows,
            "rejectedPath": self.rejected.path,
        }


class FeedError(InvalidInputError):
    """Some tables of a feed did not get their rows; the others have them. `errors` are by table, `result` is what was done."""

    def __init__(self, message: str, *, path: str | None = None, **where: Any) -> None:
        super().__init__(message, path=path, **where)
        self.errors: dict[str, LakeIdxError] = {}
        self.result: FeedResult | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    """One table of a feed file; `messages` of its rows."""

    name: str
    messages: int
    columns: Mapping[str, DataType]
    keys: tuple[str, ...]
    seen: Mapping[str, DataType]
    always: tuple[str, ...]


def _source(name: str, table: SplitTable) -> _Source:
    known = table.known
    return _Source(name, table.messages, known.columns, known.keys, known.seen, tuple(known.always or ()))


@dataclass(slots=True)
class _Split:
    """Content of a feed file, as ``split.json`` says it; `parts`: the tables whose part was written."""

    sources: dict[str, _Source]
    skipped: dict[str, int]
    rejected: RejectedRows
    parts: set[str]


@dataclass(frozen=True, slots=True)
class FeedSync:
    """Brings feed files into the tables of a database; see `lakeidx.Warehouse.sync_database`."""

    warehouse: Warehouse
    database: str
    landing: LandingOptions
    feed: FeedOptions
    strict: bool
    max_rejected: str | int | None
    limits: GivenLimits | None
    runner: Runner
    on_stage: Callable[[str], None] | None

    def run(self, files: Sequence[str]) -> list[FeedResult]:
        """Bring files, in order, into their tables."""
        if self.landing.format not in change_formats():
            raise InvalidInputError(
                f"a feed of many tables has changes: set its format, one of {', '.join(change_formats())}"
            )
        if self.landing.source:
            raise InvalidInputError("source (--source) chooses one table of a feed: choose many with including_tables")
        if self.landing.merge_schema != "refuse":
            raise InvalidInputError("merge_schema (--merge-schema) is for one table: a feed has schema_changes")
        self._limit()
        _forget_old(self.warehouse, self.database)
        return [self.sync(file) for path in files for file in self.files(path)]

    def _limit(self) -> RejectLimit:
        """Return how many lines may be of no table."""
        limit = RejectLimit() if self.max_rejected is None else RejectLimit.parse(self.max_rejected)
        return RejectLimit(count=0) if self.strict else limit

    @property
    def by_folders(self) -> bool:
        """True where a file has rows of one table, which its folders name."""
        return self.landing.format not in message_formats()

    def files(self, path: str) -> list[str]:
        """Return a feed file, or those in a folder of folders of tables, each table's full load before its changes."""
        store = landing_store(self.warehouse.store, path, self.landing.storage_options)
        if not self.by_folders or store.info(path) is not None:
            return [path]
        return sorted((f.path for f in store.walk(path)), key=file_order(self.landing.format)) or [path]

    def sync(self, path: str) -> FeedResult:
        """Bring one file into its tables."""
        file = describe_source(self.warehouse.store, path, self.landing.storage_options)
        folder = join(_feeds_folder(self.warehouse, self.database), _name_of(file))
        known = _read_split(self.warehouse, folder)
        todo = self._todo(file, folder, known)
        if known is None or any(known.sources[n].messages for n in todo - known.parts):
            known = self._split(file, folder, todo if known else None, known)
            todo = self._todo(file, folder, known)
        self._check_rejected(known.rejected, sum(s.messages for s in known.sources.values()))
        results: dict[str, BatchResult | None] = {}
        created: list[str] = []
        errors: dict[str, LakeIdxError] = {}
        for source in (s for s in known.sources.values() if self._chosen(s)):
            target = self.feed.target(source.name)
            try:
                results[target] = (
                    self._sync_table(source, target, file, folder, created) if source.name in todo else None
                )
            except LakeIdxError as error:
                log.error("%s: table %s: %s", path, target, error)
                errors[target] = error
        others = sum(s.messages for s in known.sources.values() if not self.feed.wants(s.name))
        skipped = {**known.skipped, **({OTHER_TABLES: others} if others else {})}
        result = FeedResult(path, results, tuple(created), skipped, known.rejected)
        if errors:
            raise _error_of(errors, result, path)
        if not self.by_folders:
            self.warehouse.store.delete_many([_part(folder, name) for name in known.parts])
        return result

    def _chosen(self, source: _Source) -> bool:
        return self.feed.wants(source.name) and bool(source.messages or source.keys)

    def _todo(self, file: SourceFile, folder: str, known: _Split | None) -> set[str]:
        """Return the chosen tables that do not have the file's rows; of them those whose part is gone are split again."""
        if known is None:
            return set()
        self._refuse_shared(known)
        todo = {s.name for s in known.sources.values() if self._chosen(s) and not self._has(s.name, file)}
        if not self.by_folders:
            known.parts = {n for n in known.parts if n not in todo or self.warehouse.store.exists(_part(folder, n))}
        return todo

    def _has(self, source: str, file: SourceFile) -> bool:
        try:
            table = self.warehouse.table(f"{self.database}.{self.feed.target(source)}")
        except NotFoundError:
            return False
        batch = committed_by(table.store, table.paths, file)
        return batch is not None and still_counts(table.metadata, batch)

    def _refuse_shared(self, known: _Split) -> None:
        """Refuse two tables of the source for one table: their keys are not each other's."""
        mine: dict[str, str] = {}
        for source in (s.name for s in known.sources.values() if self._chosen(s)):
            other = mine.setdefault(self.feed.target(source), source)
            if other != source:
                raise InvalidInputError(_shared(self.feed.target(source), other, source))

    def _split(self, file: SourceFile, folder: str, only: set[str] | None, known: _Split | None) -> _Split:
        """Read the file once, and write the parts of all chosen tables, or only of some; a file of one table is its part."""
        if self.by_folders:
            name = table_of_folders(file.path)
            return _Split({name: _source(name, SplitTable(messages=1))}, {}, RejectedRows(), {name})
        store, out = self.warehouse.store, self.warehouse.store
        place = landing_store(store, file.path, self.landing.storage_options)

        def wanted(name: str) -> bool:
            return self.feed.wants(name) if only is None else name in only

        if self.on_stage is not None:
            self.on_stage("split")
        with RejectWriter(out, folder, "feed") as writer:
            found = split_feed(
                place, file.path, str(self.landing.format), wanted, partial(_part, folder), out,
                lambda bad: writer.add(_rejected(file, bad)),
            )  # fmt: skip
            rejected = writer.finish()
        if not describe_source(store, file.path, self.landing.storage_options).is_version_of(file):
            raise InvalidInputError("the feed file changed while it was read; run the feed again", path=file.path)
        parts = {n for n, t in found.tables.items() if t.messages and wanted(n)}
        before = known or _Split({}, {}, RejectedRows(), set())
        sources = {n: _source(n, t) for n, t in found.tables.items()}
        sources |= {n: s for n, s in before.sources.items() if only is not None and n not in only}
        split = _Split(sources, dict(found.skipped), rejected, before.parts | parts)
        _write_split(self.warehouse, folder, split)
        return split

    def _check_rejected(self, rejected: RejectedRows, messages: int) -> None:
        why = self._limit().exceeded(rejected.rows, messages + rejected.rows)
        if why:
            first = rejected.first[0]
            raise RejectedRowsError(
                f"{rejected.rows} lines of the feed are of no table and {'the feed is strict' if self.strict else why}; first: "
                f"line {first['line']}: {first['reason']}",
                path=first["source"],
            )

    def _sync_table(
        self, source: _Source, target: str, file: SourceFile, folder: str, created: list[str]
    ) -> BatchResult | None:
        declared = {**source.columns, **self.feed.types_of(source.name)}
        table, made = self._ensure(source, target, declared, file)
        self._claim(source.name, target, made=made)
        if made:
            created.append(target)
        # A table without rows is made from what brings them first.
        wanted = merge_policy(self.feed.schema_changes)
        policy = "add" if wanted == "refuse" and table.snapshot is None else wanted
        _declare(table, declared, policy)
        batch, result = _name_of(file), None
        if source.messages:
            part = file.path if self.by_folders else _part(folder, source.name)
            result = self._upsert(table, source, target, batch, part, policy)
        mark_committed(table.store, table.paths, [file], batch)
        return result

    def _upsert(self, table: Table, source: _Source, target: str, batch: str, part: str, policy: str) -> BatchResult:
        # A column that a declaration of the file lacks is one that the source did not have yet, or has no more; so is one that
        # files of one table lack.
        declares = source.columns or self.by_folders
        optional = [f.name for f in table.schema.fields if f.name not in source.always] if declares else []
        options = replace(self.landing, merge_schema=policy, optional=tuple(optional))
        return table.upsert_files(
            [part], options, batch_id=batch, strict=self.strict, max_rejected=self.max_rejected,
            limits=self.limits, runner=self.runner, on_stage=None if self.on_stage is None else partial(self._tell, target),
        )  # fmt: skip

    def _tell(self, target: str, stage: str) -> None:
        if self.on_stage is not None:
            self.on_stage(f"{target}: {stage}")

    def _claim(self, source: str, target: str, *, made: bool) -> None:
        """Write down of which table of the source a table is a copy; InvalidInputError when it is another's."""
        path = _claim_path(self.warehouse, self.database, target)
        if made:
            self.warehouse.store.put(path, source.encode())
        elif not self.warehouse.store.put_if_absent(path, source.encode()):
            other = self.warehouse.store.get(path).decode()
            if other != source:
                raise InvalidInputError(_shared(target, other, source))

    def _ensure(
        self, source: _Source, target: str, declared: Mapping[str, DataType], file: SourceFile
    ) -> tuple[Table, bool]:
        """Open a table, or make it of its key and what is declared; True when it was made."""
        name = f"{self.database}.{target}"
        try:
            return self.warehouse.table(name), False
        except NotFoundError:
            keys = self.feed.keys_of(source.name) or source.keys
        if not keys:
            raise InvalidInputError(
                f"the messages of {source.name} do not tell its primary key: give primary_keys (--primary-keys "
                f"{source.name.rpartition('.')[2]}=id), or leave the table out (excluding_tables)"
            )
        if self.by_folders:
            declared = {**self._types_in(file), **declared}
        conf = {k: str(v) for k, v in self.feed.table_conf.items()}
        partitions = self.feed.partition_keys_of(source.name)
        order = (
            [n.strip() for n in conf.get("sequence.field", "").split(",") if n.strip()] if self.landing.order else []
        )
        needed = dict.fromkeys((*keys, *partitions))
        seen = {n: source.seen[n] for n in needed if n not in declared and n in source.seen}
        lacking = [n for n in needed if n not in declared and n not in seen]
        if lacking:
            raise InvalidInputError(
                f"the messages of {source.name} do not tell the type of the key column {lacking[0]!r}: give it with types "
                f"(--type {source.name.rpartition('.')[2]}.{lacking[0]}=BIGINT)"
            )
        columns = {**seen, **declared, **{n: parse_type("BIGINT") for n in order if n not in declared}}
        spec = {
            "fields": [{"name": n, "type": str(t)} for n, t in columns.items()],
            "primaryKeys": list(dict.fromkeys((*partitions, *keys))),
            "partitionKeys": list(partitions),
            "options": conf,
        }
        return self.warehouse.create(name, spec, exist_ok=True), True

    def _types_in(self, file: SourceFile) -> dict[str, DataType]:
        """Return the types of the columns of a file of one table: those that it says, or of its texts."""
        plain = replace(self.landing, format=None, op_column=None, op_values=(), order=())
        place = landing_store(self.warehouse.store, file.path, self.landing.storage_options)
        sample = read_sample(place, file.path, plain)
        found = infer_types(sample.rows, sample.options, written=sample.written).types
        return {n: parse_type(t) for n, t in found.items() if n != DMS_COLUMN}


def known_tables(warehouse: Warehouse, database: str) -> dict[str, str]:
    """Return the tables of a database that feeds have made or filled, each with the source's table."""
    files = [f for f in warehouse.store.list(_claim_path(warehouse, database, "")) if not f.is_dir]
    return {f.name: warehouse.store.get(f.path).decode() for f in files}


def _declare(table: Table, declared: Mapping[str, DataType], policy: str) -> None:
    """Add what the source declares and the table lacks, as far as the policy lets it; the reader refuses the rest."""
    for _ in range(MERGE_TRIES):
        base = table.schema
        mine = {f.name: f.type for f in base.fields}
        held = {*base.primary_keys, *base.partition_keys}
        wanted = {n: t for n, t in declared.items() if policy != "refuse" and n not in mine}
        if policy == "widen":
            wanted |= {n: t for n, t in declared.items() if n in mine and n not in held and grows(mine[n], t)}
        if not wanted or put_columns(table, base, plan_new_columns(table, base, wanted)):
            return
    raise others_were_faster(table)


def _shared(target: str, one: str, other: str) -> str:
    return (
        f"{one} and {other} of the source would both go into the table {target}: give one another name with table_mapping "
        f"(--table-mapping {other}=NAME)"
    )


def _error_of(errors: Mapping[str, LakeIdxError], result: FeedResult, path: str) -> FeedError:
    shown = "; ".join(f"{name}: {error}" for name, error in errors.items())
    error = FeedError(
        f"{len(errors)} of {len(errors) + len(result.tables)} tables did not get their rows, the others have them; run the feed "
        f"again when this is mended: {shown}",
        path=path,
    )
    error.errors, error.result = dict(errors), result
    return error


def _name_of(file: SourceFile) -> str:
    """Name a feed file and its batches: readable, and another when the file is."""
    return batch_id_of([file.path.rpartition("/")[2]], [file])


def _feeds_folder(warehouse: Warehouse, database: str) -> str:
    return join(warehouse.uri, STAGING_DIR, database, "_feeds")


def _forget_old(warehouse: Warehouse, database: str) -> None:
    """Remove what is kept of feed files that nobody has touched for long: a run of one of them would read it again."""
    folder = _feeds_folder(warehouse, database)
    newest: dict[str, int] = {}
    found = [(f.path.rpartition(f"{folder}/")[2].partition("/")[0], f) for f in warehouse.store.walk(folder)]
    for name, file in found:
        newest[name] = max(newest.get(name, 0), file.mtime_ms)
    old = {n for n, at in newest.items() if n != _CLAIMS and at < time.time() * 1000 - _KEPT_MS}
    warehouse.store.delete_many([f.path for name, f in found if name in old])


def _claim_path(warehouse: Warehouse, database: str, target: str) -> str:
    return join(_feeds_folder(warehouse, database), _CLAIMS, target)


def _part(folder: str, source: str) -> str:
    return f"{folder}/{UNSAFE.sub('-', source)}-{hashlib.sha256(source.encode()).hexdigest()[:6]}{PART}"


def _rejected(file: SourceFile, bad: Sequence[BadLine]) -> pa.Table:
    rows = [{"source": file.path, "line": b.line, "reason": b.reason, "row": b.text} for b in bad]
    return pa.Table.from_pylist(rows, REJECT_SCHEMA)


def _write_split(warehouse: Warehouse, folder: str, split: _Split) -> None:
    tables = {s.name: {"messages": s.messages, "columns": {n: str(t) for n, t in s.columns.items()}, "keys": s.keys,
                       "seen": {n: str(t) for n, t in s.seen.items()}, "always": sorted(s.always)}
              for s in split.sources.values()}  # fmt: skip
    rejected = {"rows": split.rejected.rows, "path": split.rejected.path, "first": list(split.rejected.first),
                "reasons": dict(split.rejected.reasons)}  # fmt: skip
    data = {"tables": tables, "skipped": split.skipped, "rejected": rejected, "parts": sorted(split.parts)}
    warehouse.store.put(f"{folder}/split.json", seal(json.dumps(data).encode()))


def _read_split(warehouse: Warehouse, folder: str) -> _Split | None:
    path = f"{folder}/split.json"
    try:
        data = json.loads(unseal(warehouse.store.get(path), path))
    except NotFoundError:
        return None
    sources = {
        n: _Source(n, t["messages"], _types(t["columns"]), tuple(t["keys"]), _types(t["seen"]), tuple(t["always"]))
        for n, t in data["tables"].items()
    }
    r = data["rejected"]
    return _Split(
        sources,
        data["skipped"],
        RejectedRows(r["rows"], r["path"], r["reasons"], tuple(r["first"])),
        set(data["parts"]),
    )


def _types(texts: Mapping[str, str]) -> dict[str, DataType]:
    return {n: parse_type(t) for n, t in texts.items()}
