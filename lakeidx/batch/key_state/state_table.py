"""The key state of a table as a primary-key table of fixed buckets, written, compacted and expired as all tables are.

==================  ========================  =========================================================================
column              type                      content
==================  ========================  =========================================================================
key columns         as in the served table    its trimmed primary key
``_PARTITION``      STRING                    the key's partition as manifests have it, in hex; part of the primary key
                                              where a key lives in every partition by itself
``_BUCKET``         INT                       the key's bucket
``_WRITTEN``        BIGINT                    when the location was written, epoch seconds
==================  ========================  =========================================================================

Tables lie in ``<index dir>/state/<number>``. A state is built in a folder with the next number, and takes those before it away.
Each snapshot says in its property ``lakeidx.key-state`` of which snapshot of which table it is; a COMPACT snapshot is of the same
one as the snapshot before it.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lakeidx.compaction.plan_buckets import plan_buckets
from lakeidx.compaction.rewrite import compact_bucket
from lakeidx.errors import CommitConflictError, CorruptFileError, NotFoundError, TableReplacedError
from lakeidx.format.data_file import EMPTY_ROW
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import TableSchema, encode_schema, new_schema
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import join, name_of, parent_of
from lakeidx.table.commit.changes import CommitRequest, TableChanges, merge_changes
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.orphans import find_orphans, remove_orphans
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import SnapshotView, load_view
from lakeidx.tasks.runner import Runner
from lakeidx.types import Field

_log = logging.getLogger(__name__)
_PROPERTY = "lakeidx.key-state"
_FOLDER = "state"
_OPTIONS = {
    # A few keys are read with little around them.
    "file.block-size": "512 kb",
    "data-file.thin-mode": "true",
}
#: A bucket is made for so many keys, and a state built again when its buckets have four times as many.
BUCKET_KEYS = 1 << 21
_MOST = 4


@dataclass(frozen=True, slots=True)
class Described:
    """The snapshot of a served table that a state is of.

    table, snapshot, token   identity of the table, and id and identity of its snapshot
    scope                    what else decides about the content
    """

    table: str
    scope: str
    snapshot: int | None
    token: str | None


Counts = Mapping[tuple[bytes, int], int]


@dataclass(frozen=True, slots=True, eq=False)
class KeyState:
    """Content of a snapshot of a state table; pickles.

    of       the snapshot of the served table that it is of
    data     the table's snapshot; None = it is empty
    counts   keys per (partition, bucket); None = not known
    """

    metadata: TableMetadata
    schema: TableSchema
    of: Described
    data: Snapshot | None
    counts: Counts | None

    @property
    def is_global(self) -> bool:
        """True when a key lives in one partition at a time."""
        return self.place_columns[0] not in self.schema.primary_keys

    @property
    def place_columns(self) -> tuple[str, ...]:
        """Names of the columns partition, bucket and time."""
        return self.schema.field_names[-3:]

    def view(self) -> SnapshotView:
        """Load the live files."""
        return load_view(self.metadata, self.data)

    def holds(self, keys: int) -> bool:
        """Return True when there is room for so many more keys."""
        rows = sum(e.file.row_count for e in self.view().entries)
        return rows + keys <= _MOST * BUCKET_KEYS * self.schema.bucket


class StateTables:
    """The state tables of a served table.

    index_dir   where the files of its index are
    keep        snapshots of the served table whose state stays
    """

    def __init__(self, store: ObjectStore, index_dir: str, *, keep: int) -> None:
        self._store = store
        self._folder = join(index_dir, _FOLDER)
        self._keep = keep

    def states(self) -> Iterator[tuple[KeyState, bool]]:
        """Find the states, newest first, and whether more may be written into each: into the newest one of the newest table."""
        newest = True
        for metadata in self.tables():
            try:
                found = list(_described(metadata, list(metadata.snapshots())))
            except (NotFoundError, TableReplacedError):
                # A newer one is taking it away.
                continue
            except CorruptFileError as error:
                _log.warning("ignoring a key state: %s", error)
                continue
            for state in found:
                yield state, newest
                newest = False

    def tables(self) -> Iterator[TableMetadata]:
        """Open the tables that can be read, newest first."""
        for number in sorted(self._numbers(), reverse=True):
            try:
                yield TableMetadata.open(self._store, join(self._folder, str(number)))
            except NotFoundError:
                # It is going, or only its folder is left.
                continue
            except CorruptFileError as error:
                _log.warning("ignoring a key state: %s", error)

    @contextmanager
    def superseded_is_conflict(self, state: KeyState) -> Iterator[None]:
        """Raise CommitConflictError for what is missing because a newer state of another program takes this one away."""
        try:
            yield
        except (NotFoundError, TableReplacedError) as error:
            if max(self._numbers(), default=0) <= _number_of(state):
                raise
            raise CommitConflictError(
                f"a newer key state takes the place of that of snapshot {state.of.snapshot}",
                path=state.metadata.paths.root,
            ) from error

    def create(self, key_fields: Sequence[Field], keys: int, of: Described, *, is_global: bool) -> KeyState:
        """Make an empty table.

        keys   how many are to come
        """
        names = [f.name for f in key_fields]
        places = [_free_name(n, names) for n in ("_PARTITION", "_BUCKET", "_WRITTEN")]
        fields = [{"name": f.name, "type": str(f.type)} for f in key_fields]
        fields += [{"name": n, "type": t} for n, t in zip(places, ("STRING NOT NULL", "INT", "BIGINT"), strict=True)]
        buckets = 1 << max(0, (keys - 1) // BUCKET_KEYS).bit_length()
        schema = new_schema(
            {
                "fields": fields,
                "primaryKeys": names if is_global else [*names, places[0]],
                "options": {**_OPTIONS, "bucket": str(buckets)},
                "comment": f"where the keys of {of.table.partition(' ')[0]} are",
            }
        )
        number = max(self._numbers(), default=0) + 1
        while True:
            metadata = TableMetadata(self._store, TablePaths.of(join(self._folder, str(number)), schema))
            if self._store.put_if_absent(metadata.paths.schema_path(0), encode_schema(schema)):
                return KeyState(metadata, schema, of, None, {} if is_global else None)
            number += 1

    def commit(self, state: KeyState, changes: TableChanges, of: Described, counts: Counts | None) -> KeyState:
        """Put what makes a state that of another snapshot.

        errors   CommitConflictError when others have written into the table since
        """
        base = 0 if state.data is None else state.data.id
        text: dict[str, Any] = {"table": of.table, "scope": of.scope, "snapshot": of.snapshot, "token": of.token}
        if counts is not None:
            text["counts"] = _counts_to_json(counts)
        request = CommitRequest(
            commit_user=f"lakeidx-state-{uuid.uuid4()}",
            changes=changes,
            base_snapshot_id=base or None,
            alone_since=base,
            even_empty=CommitKind.APPEND,
            tried_before=False,
            properties={_PROPERTY: json.dumps(text, separators=(",", ":"))},
        )
        done = commit_changes(state.metadata, request, schema=state.schema)
        made = replace(state, of=of, data=state.metadata.load_snapshot(done.snapshot_ids[0]), counts=counts)
        if not base:
            self._drop_before(made)
        return made

    def upkeep(self, state: KeyState, touched: Collection[int], runner: Runner, *, label: str, ttl: float) -> KeyState:
        """Compact the buckets that are due, and then delete what programs that died have left; expire snapshots.

        ttl      seconds after which rows are dropped; 0 = never
        """
        metadata, schema, now_ms = state.metadata, state.schema, int(time.time() * 1000)
        if ttl:
            options = {
                "record-level.expire-time": f"{max(1, int(ttl))} s",
                "record-level.time-field": state.place_columns[2],
            }
            schema = replace(schema, options={**schema.options, **options})
        work = plan_buckets(metadata, schema, state.view(), full=False, only={(EMPTY_ROW, b) for b in touched})
        if work:
            done = runner.map(compact_bucket, work, label=label)
            request = CommitRequest(
                commit_user=f"lakeidx-state-compact-{uuid.uuid4()}",
                changes=merge_changes(d.changes for d in done),
                tried_before=False,
            )
            try:
                ids = commit_changes(metadata, request, schema=state.schema).snapshot_ids
                if state.data is not None and ids == (state.data.id + 1,):
                    state = replace(state, data=metadata.load_snapshot(ids[0]))
            except CommitConflictError as error:
                _log.info("the key state was not compacted: %s", error)
            remove_orphans(metadata, find_orphans(metadata, now_ms=now_ms))
        retention = Retention(num_min=2 * self._keep, num_max=2 * self._keep, time_ms=0)
        expire_table(metadata, state.schema, now_ms=now_ms, retention=retention)
        return state

    def _numbers(self) -> list[int]:
        return [int(f.name) for f in self._store.list(self._folder) if f.name.isdigit()]

    def _drop_before(self, state: KeyState) -> None:
        """Delete what is there of states before this one, of releases with another format among them."""
        own = _number_of(state)
        for found in self._store.list(self._folder):
            if not found.name.isdigit() or int(found.name) < own:
                files = [f.path for f in self._store.walk(found.path)]
                # Nothing is a state any more before files go that it is made of.
                snapshots = [path for path in files if "/snapshot/" in path]
                self._store.delete_many(snapshots)
                self._store.delete_many([path for path in files if path not in snapshots])
                for folder in sorted({parent_of(path) for path in files}, key=len, reverse=True):
                    self._store.delete_empty_dir(folder)
                self._store.delete_empty_dir(found.path)


def _number_of(state: KeyState) -> int:
    return int(name_of(state.metadata.paths.root))


def _described(metadata: TableMetadata, snapshots: Sequence[Snapshot]) -> Iterator[KeyState]:
    """Yield the states of a table, newest first."""
    schema, data = metadata.latest_schema(), None
    for snapshot in reversed(snapshots):
        data = data or snapshot
        text = snapshot.properties.get(_PROPERTY)
        if text is not None:
            of, counts = _parse(text, metadata.paths.snapshot_path(snapshot.id))
            yield KeyState(metadata, schema, of, data, counts)
            data = None
        elif snapshot.commit_kind is not CommitKind.COMPACT:
            # Someone else has written into it.
            return


def _parse(text: str, path: str) -> tuple[Described, Counts | None]:
    try:
        o: dict[str, Any] = json.loads(text)
        counts = None if "counts" not in o else _counts_from_json(o["counts"])
        return Described(str(o["table"]), str(o["scope"]), int(o["snapshot"]), str(o["token"])), counts
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptFileError(f"property {_PROPERTY!r} cannot be read: {error}", path=path) from error


def _counts_to_json(counts: Counts) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for (partition, bucket), n in counts.items():
        if n > 0:
            out.setdefault(partition.hex(), {})[str(bucket)] = n
    return out


def _counts_from_json(o: Mapping[str, Mapping[str, int]]) -> Counts:
    return {(bytes.fromhex(p), int(b)): int(n) for p, buckets in o.items() for b, n in buckets.items()}


def _free_name(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = f"_{name}"
    return name
