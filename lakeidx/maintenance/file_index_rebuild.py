"""Adds, replaces or drops file indexes of data files that are there already, group by group; no data file is written.

For each file that changes, the snapshot has a DELETE of its old manifest entry and an ADD of the new one, with another
``.index`` file or other embedded bytes. Old index files stay for the snapshots that name them.

source   org.apache.paimon.flink.procedure.RewriteFileIndexProcedure, org.apache.paimon.index.FileIndexProcessor, release 1.4.2
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict

from lakeidx.batch.commit_priority import commit_with_priority
from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lakeidx.file_index.container import decode_index_container, encode_index_container
from lakeidx.file_index.options import IndexedColumn, check_indexed_columns, indexed_columns, split_reference
from lakeidx.file_index.write import INDEX_SUFFIX, DataFileIndexWriter
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.predicate.tree import map_reference
from lakeidx.results import Result
from lakeidx.storage.files import join
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.earlier_commit import may_plan_again
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import is_superseded, load_newest
from lakeidx.table.view import data_file_path
from lakeidx.tasks.groups import GroupedWork
from lakeidx.tasks.runner import Runner

_log = logging.getLogger(__name__)
_MAX_ROUNDS = 10

#: column name in the container -> index type -> payload (None: an empty index)
Payloads = dict[str, dict[str, bytes | None]]


class FileIndexRebuildReport(Result, BaseModel):
    """Report of a rebuild of file indexes, or of the hash index, or in a dry run its plan.

    files        live data files examined
    rewritten    files whose indexes changed; hash index files that were written
    index_bytes  bytes of their new containers, or of those files
    rows_read    rows read to build indexes
    """

    model_config = ConfigDict(frozen=True)

    snapshot_ids: tuple[int, ...]
    files: int
    rewritten: int
    index_bytes: int
    rows_read: int
    rounds: int
    seconds: float
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RebuildSpec:
    """Indexes that files shall have afterwards.

    build    indexes to build, in place of those of the same type and column
    drop     (type, column) to drop; column None = all columns; in the table's present names
    exact    all others go, too, and files that have exactly `build` stay untouched
    """

    build: tuple[IndexedColumn, ...] = ()
    drop: frozenset[tuple[str, str | None]] = frozenset()
    exact: bool = False


def spec_of_options(schema: TableSchema) -> RebuildSpec:
    """Return a spec of what the table's options request, and nothing else."""
    return RebuildSpec(build=indexed_columns(schema.options), exact=True)


def spec_to_build(schema: TableSchema, index_type: str, columns: Sequence[str]) -> RebuildSpec:
    """Make the spec of one type for some columns (names, or ``col[key]``), with the options of the columns as the table has them.

    errors   InvalidInputError for an unknown type, a column that does not exist or a type that cannot be indexed
    """
    if not columns:
        raise InvalidInputError("name the columns to index")
    known = {(i.index, i.reference): i for i in indexed_columns(schema.options)}
    build = []
    for name in columns:
        source, map_key = split_reference(name)
        found = known.get((index_type, name))
        build.append(found or IndexedColumn(name, source, map_key, index_type, {}))
    for indexed in build:
        check_indexed_columns(indexed, schema)
    if index_type != "bloom-filter" and all(i.index == "bloom-filter" for i in indexed_columns(schema.options)):
        _log.warning(
            "files of this table may hold DELTA_BINARY_PACKED pages, from which Java Paimon 1.4.2 reads wrong rows with a"
            " %s index: set file-index.%s.columns and compact before Java uses it",
            index_type,
            index_type,
        )
    return RebuildSpec(build=tuple(build))


def spec_to_drop(index_type: str, columns: Sequence[str]) -> RebuildSpec:
    """Drop one type, of some columns or (none given) of all."""
    return RebuildSpec(drop=frozenset((index_type, c) for c in columns) or frozenset({(index_type, None)}))


def rebuild_spec(schema: TableSchema, index_type: str | None, columns: Sequence[str], *, drop: bool) -> RebuildSpec:
    """Make the spec from ``--type``, ``--columns`` and ``--drop``.

    errors   InvalidInputError when they do not go together, and as `spec_to_build`
    """
    if index_type is None:
        if columns or drop:
            raise InvalidInputError("--columns and --drop need --type")
        return spec_of_options(schema)
    return spec_to_drop(index_type, columns) if drop else spec_to_build(schema, index_type, columns)


@dataclass(frozen=True, slots=True)
class FileRebuild:
    """One data file's work; pickles."""

    metadata: TableMetadata
    schema: TableSchema
    entry: ManifestEntry
    spec: RebuildSpec


@dataclass(frozen=True, slots=True)
class RebuiltFile:
    """The file's new entry; None when it stays as it is."""

    entry: ManifestEntry | None
    index_bytes: int = 0
    rows_read: int = 0


def run_file_index_rebuild(
    metadata: TableMetadata,
    runner: Runner,
    spec: RebuildSpec,
    *,
    partitions: Collection[bytes] | None = None,
    dry_run: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> FileIndexRebuildReport:
    """Build the specified indexes of the live data files.

    partitions   only these (partition bytes)
    dry_run      build nothing; only count the files that would be examined
    errors       of the kind of the first file's whose indexes could not be built, naming it, when all others are committed;
                 CommitConflictError when other writers were faster again and again; CorruptFileError, UnavailableError
    """
    started = time.monotonic()
    schema = metadata.latest_schema()
    label = f"index_rebuild: {metadata.paths.root}"
    tasks = GroupedWork(runner, _rebuild_file, _data_file, _file_size, label, ("files", "indexed anew"))
    run = _Run(metadata, schema, spec, partitions, tasks, sleep)
    todo = run.new_work()
    files = len(todo)
    if not dry_run:
        for group in tasks.groups(todo):
            run.rebuild(group)
            if tasks.failed and not run.done:
                break
        tasks.raise_failed(files, len(run.done))
    changed = [made for made in run.done if made.entry is not None]
    return FileIndexRebuildReport(
        snapshot_ids=tuple(run.ids),
        files=files,
        rewritten=files if dry_run else len(changed),
        index_bytes=sum(made.index_bytes for made in changed),
        rows_read=sum(made.rows_read for made in run.done),
        rounds=run.rounds,
        seconds=time.monotonic() - started,
        dry_run=dry_run,
    )


@dataclass(slots=True)
class _Run:
    """One rebuild of a table, group by group.

    seen     files that were planned or made
    base     looked at last
    ids, done   snapshots, and what they hold
    rounds   the largest number of commits that a group tried
    """

    metadata: TableMetadata
    schema: TableSchema
    spec: RebuildSpec
    partitions: Collection[bytes] | None
    tasks: GroupedWork[FileRebuild, RebuiltFile]
    sleep: Callable[[float], None]
    live: dict[object, ManifestEntry] = field(default_factory=dict)
    seen: set[object] = field(default_factory=set)
    base: Snapshot | None = None
    ids: list[int] = field(default_factory=list)
    done: list[RebuiltFile] = field(default_factory=list)
    rounds: int = 1

    def new_work(self) -> list[FileRebuild]:
        """Return the live files that were not seen yet, largest first."""
        view = load_newest(self.metadata, partitions=self.partitions)
        self.base = view.snapshot
        self.live = {e.identifier: e for e in view.entries}
        new = [e for i, e in self.live.items() if i not in self.seen]
        self.seen |= self.live.keys()
        work = (FileRebuild(self.metadata, self.schema, e, self.spec) for e in new)
        return sorted(work, key=lambda w: -_file_size(w))

    def _again(self, kept: Sequence[tuple[FileRebuild, RebuiltFile]]) -> list[tuple[FileRebuild, RebuiltFile]]:
        new = self.new_work()
        return [(w, made) for w, made in kept if w.entry.identifier in self.live] + self.tasks.run(new)

    def _caught_up(self, kept: list[tuple[FileRebuild, RebuiltFile]]) -> list[tuple[FileRebuild, RebuiltFile]]:
        """Take the files that others have put in the place of those that are gone."""
        while self.tasks.failed and is_superseded(self.metadata, self.base) and self.tasks.take_missing():
            kept = self._again(kept)
        return kept

    def rebuild(self, work: Sequence[FileRebuild]) -> None:
        """Build the indexes of a group and commit them; skip files that others have replaced meanwhile."""
        kept = self._caught_up(self.tasks.run(work))
        # Groups have names of their own, or one would be taken for another that is in the table.
        user = f"lakeidx-index-{uuid.uuid4()}"
        for attempt in range(1, _MAX_ROUNDS + 1):
            self.rounds = max(self.rounds, attempt)
            changed = [(w.entry, made.entry) for w, made in kept if made.entry is not None]
            changes = _replaced(changed)
            try:
                if changed:
                    self._commit(user, changes)
            except (CommitConflictError, CommitUnknownError) as error:
                if attempt == _MAX_ROUNDS or not may_plan_again(error, changes):
                    raise
                kept = self._caught_up(self._again(kept))
                continue
            self.seen |= {new.identifier for _, new in changed}
            self.done += [made for _, made in kept]
            return

    def _commit(self, user: str, changes: TableChanges) -> None:
        base = self.base.id if self.base else None
        request = CommitRequest(commit_user=user, changes=changes, base_snapshot_id=base)
        self.ids += commit_with_priority(self.metadata, request, sleep=self.sleep).snapshot_ids


def _replaced(changed: Sequence[tuple[ManifestEntry, ManifestEntry]]) -> TableChanges:
    removed = (replace(old, kind=FileKind.DELETE) for old, _ in changed)
    return TableChanges(compact=(*removed, *(new for _, new in changed)))


def _data_file(work: FileRebuild) -> str:
    return data_file_path(work.metadata, work.entry)


def _file_size(work: FileRebuild) -> int:
    return work.entry.file.file_size


def _rebuild_file(work: FileRebuild) -> RebuiltFile:
    """Build the container of one data file and write it, when it changes (runs in a task)."""
    file, metadata = work.entry.file, work.metadata
    file_schema = metadata.load_schema(file.schema_id)
    path = _data_file(work)
    build, drop = _in_file_terms(work.spec, work.schema, file_schema)
    before = _payloads(metadata, file, path)
    have = {(index, column) for column, by_type in before.items() for index in by_type}
    wanted = {(i.index, i.reference) for i in build}
    if work.spec.exact and have == wanted:
        return RebuiltFile(None)
    kept: Payloads = {}
    if not work.spec.exact:
        for column, by_type in before.items():
            left = {t: p for t, p in by_type.items() if not _is_dropped_or_replaced((t, column), wanted, drop)}
            if left:
                kept[column] = left
    rows = 0
    if build:
        built, rows = _build(work, file_schema, path, build)
        for column, new_of_column in built.items():
            kept[column] = {**kept.get(column, {}), **new_of_column}
    if not build and {(t, c) for c, by_type in kept.items() for t in by_type} == have:
        return RebuiltFile(None)
    embedded, extra, size = _store(work, path, kept)
    others = tuple(n for n in file.extra_files if not n.endswith(INDEX_SUFFIX))
    new = replace(file, embedded_index=embedded, extra_files=(*others, *extra))
    return RebuiltFile(replace(work.entry, file=new), size, rows)


def _is_dropped_or_replaced(
    index: tuple[str, str], wanted: Collection[tuple[str, str]], drop: Collection[tuple[str, str | None]]
) -> bool:
    return index in wanted or index in drop or (index[0], None) in drop


def _in_file_terms(
    spec: RebuildSpec, schema: TableSchema, file_schema: TableSchema
) -> tuple[list[IndexedColumn], set[tuple[str, str | None]]]:
    """Translate the spec into the names a file was written with; columns that the file does not have are left out.

    A column that has had a type which cannot be indexed is left out, too.
    """

    def name_then(source: str) -> str | None:
        now = schema.fields_by_name.get(source)
        then = file_schema.fields_by_id.get(now.id) if now is not None else None
        return None if then is None else then.name

    build = []
    for indexed in spec.build:
        then = name_then(indexed.source)
        if then is None:
            continue
        reference = then if indexed.map_key is None else map_reference(then, indexed.map_key)
        translated = replace(indexed, reference=reference, source=then)
        try:
            check_indexed_columns(translated, file_schema)
        except InvalidInputError as error:
            if file_schema.id == schema.id:
                raise
            _log.warning("files of schema %d get no %s index of %s: %s", file_schema.id, indexed.index, then, error)
            continue
        build.append(translated)
    drop: set[tuple[str, str | None]] = set()
    for index, column in spec.drop:
        if column is None:
            drop.add((index, None))
            continue
        source, map_key = split_reference(column)
        then = name_then(source)
        if then is not None:
            drop.add((index, then if map_key is None else map_reference(then, map_key)))
    return build, drop


def _payloads(metadata: TableMetadata, file: DataFileMeta, path: str) -> Payloads:
    """Read the indexes a file has; none, with a warning, when they are damaged: they are then rebuilt or lost."""
    side = next((n for n in file.extra_files if n.endswith(INDEX_SUFFIX)), None)
    try:
        if file.embedded_index:
            return decode_index_container(file.embedded_index, path)
        if side is not None:
            where = join(path.rpartition("/")[0], side)
            return decode_index_container(metadata.store.get(where), where)
    except (CorruptFileError, UnsupportedError, NotFoundError) as error:
        _log.warning("the file index of %s cannot be rebuilt: %s", path, error)
    return {}


def _build(
    work: FileRebuild, file_schema: TableSchema, path: str, build: Sequence[IndexedColumn]
) -> tuple[Mapping[str, Mapping[str, bytes | None]], int]:
    """Build payloads over all physical rows of the file: positions in an index count deleted rows as well."""
    writer = DataFileIndexWriter(file_schema, build, threshold=1 << 62)
    rows = 0
    columns = [n for n in file_schema.field_names if n in writer.columns]
    for table in read_data_file(work.metadata.store, path, work.entry.file, file_schema, file_schema, columns):
        writer.add(table)
        rows += table.num_rows
    made = writer.finish().embedded
    return (decode_index_container(made, path) if made is not None else {}), rows


def _store(work: FileRebuild, path: str, payloads: Payloads) -> tuple[bytes | None, tuple[str, ...], int]:
    """Store the new container: (embedded bytes, names of side files, size).

    Java collects the DELETE entries of all manifests before it looks at the ADD entries, and an entry is known by its
    file's name, extra files and embedded bytes. An entry that once was deleted must never come again, or Java would not
    see the file any more: so every rebuild, that to no index at all included, leaves a mark that is new. In embedded
    bytes it is a column of that name without indexes, which readers skip.
    """
    mark = uuid.uuid4().hex
    embedded = encode_index_container({**payloads, f"_rebuilt-{mark}": {}})
    if not payloads or len(embedded) <= work.schema.table_options.file_index_in_manifest_threshold:
        return embedded, (), len(embedded)
    container = encode_index_container(payloads)
    directory, _, name = path.rpartition("/")
    side = f"{name}-{mark}{INDEX_SUFFIX}"
    work.metadata.store.put(join(directory, side), container)
    return None, (side,), len(container)
