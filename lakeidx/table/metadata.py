"""Reads a table's small metadata files: hints, snapshots, schemas, manifests, index manifests; `history` reads the past ones.

Manifests are read by `lakeidx.table.manifest_files`; their names are never used again. The names of snapshots and schemas are:
after a rollback, after a branch was fast-forwarded, and when the table is dropped and created again. The newest snapshot is
therefore read each time, and the snapshots before it are kept only while the newest one that was read is still in the table. A
handle belongs to one table, which its first schema file identifies; when another table has its place, it stops with a
TableReplacedError.

source   org.apache.paimon.utils.SnapshotManager, HintFileUtils; org.apache.paimon.schema.SchemaManager, release 1.4.2
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator

from lakeidx.errors import CorruptFileError, InvalidInputError, LakeIdxError, NotFoundError, TableReplacedError
from lakeidx.format.consumer import decode_hint
from lakeidx.format.paths import MAIN_BRANCH, TablePaths
from lakeidx.format.schema.feature_gate import warn_once
from lakeidx.format.schema.schema_file import TableSchema, decode_schema
from lakeidx.format.snapshot import Snapshot, decode_snapshot
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.table.manifest_files import ManifestFiles

#: How often a reader looks again when the snapshot it was pointed to has just been expired.
_VANISHED_STEPS = 300
#: How often the snapshots are listed when a rollback takes away what was listed.
_LISTINGS = 5
#: Table and name of a branch's directory.
_IN_A_BRANCH = re.compile(r"(.+)/branch/branch-([^/]+)")


class TableMetadata(ManifestFiles):
    """The metadata files of one table directory.

    store      where the table lies
    paths      names of its files
    table_id   identity of the table (`table_id`); None: that of the table found at first use
    """

    def __init__(self, store: ObjectStore, paths: TablePaths, *, table_id: str | None = None) -> None:
        super().__init__(store, paths)
        self._table_id = table_id
        self._schemas: dict[int, TableSchema] = {}
        # By schema id: the file as listed when it was read, or seen to be the same.
        self._schema_files: dict[int, FileInfo] = {}
        self._head: Snapshot | None = None
        self._looked = False
        self._chain: dict[int, Snapshot] = {}
        self._last_read: tuple[bytes, Snapshot] | None = None

    def __getstate__(self) -> tuple[ObjectStore, TablePaths, str | None]:
        # Spark tasks get a fresh cache: what the driver has decoded is not worth its bytes.
        return self.store, self.paths, self._table_id

    def __setstate__(self, state: tuple[ObjectStore, TablePaths, str | None]) -> None:
        self.__init__(*state[:2], table_id=state[2])  # type: ignore[misc]

    def over(self, store: ObjectStore) -> TableMetadata:
        """Return the same table with another store of its files; the schemas that were read are known there, too."""
        made = TableMetadata(store, self.paths, table_id=self._table_id)
        made._schemas, made._schema_files = self._schemas, self._schema_files
        return made

    @classmethod
    def open(cls, store: ObjectStore, root: str, *, branch: str = MAIN_BRANCH) -> TableMetadata:
        """Open the table that is in a directory now; NotFoundError when there is none, InvalidInputError for that of a branch.

        branch   NotFoundError for one that is not there names those that are
        """
        inside = _IN_A_BRANCH.fullmatch(root.rstrip("/"))
        if inside is not None and cls(store, TablePaths(inside[1])).schema_ids():
            raise InvalidInputError(
                f"this is the directory of branch {inside[2]!r}, no table: open {inside[1]}$branch_{inside[2]}",
                path=root,
            )
        opened = cls(store, TablePaths(root, branch=branch))
        if branch != MAIN_BRANCH and not opened.schema_ids() and cls(store, TablePaths(root)).schema_ids():
            from lakeidx.table.history import branch_names

            have = ", ".join(branch_names(opened)) or "none"
            raise NotFoundError(f"branch {branch!r} does not exist; branches: {have}", path=root)
        schema = opened.latest_schema()
        warn_once(schema, root)
        opened.paths = TablePaths.of(root, schema, branch=branch)
        return opened

    def reopened(self) -> TableMetadata:
        """Return the table that is here now, which may not be the one that this handle was opened on."""
        return TableMetadata.open(self.store, self.paths.root, branch=self.paths.branch)

    # -- snapshots ---------------------------------------------------------------------------------------------

    def snapshot_ids(self) -> list[int]:
        """Return the ids of the table's history, ascending: those without a gap up to the newest (one listing).

        Before a gap stand snapshots that were put on ids that had expired (`lakeidx.table.commit.chain`).
        """
        return self.split_snapshot_ids()[1]

    def stray_snapshot_ids(self) -> list[int]:
        """Return the ids of the snapshot files that do not belong to the history, ascending (one listing)."""
        return self.split_snapshot_ids()[0]

    def split_snapshot_ids(self) -> tuple[list[int], list[int]]:
        """Return `stray_snapshot_ids` and `snapshot_ids` (one listing)."""
        ids: list[int] = []
        for _ in range(_LISTINGS):
            ids = self.listed_snapshot_ids()
            gaps = ((n, i) for n in range(len(ids) - 1, 0, -1) for i in range(ids[n] - 1, ids[n - 1], -1))
            # A listing may leave out what came while it was made.
            position, missing = next(((n, i) for n, i in gaps if not self.has_snapshot(i)), (0, 0))
            if not position or self.expired_before(missing, ids[-1]):
                return ids[:position], ids[position:]
        return [], ids

    def listed_snapshot_ids(self) -> list[int]:
        """Return the ids of all snapshot files that are there now, ascending, whether or not they belong to the history."""
        return self.ids_in(self.paths.snapshot_dir, "snapshot-")

    def earliest_snapshot_id(self) -> int | None:
        """Return the id of the oldest snapshot of the history that is not being expired (one listing)."""
        hint, ids = self.earliest_hint(), self.snapshot_ids()
        return hint if hint in ids else ids[0] if ids else None

    def load_snapshot(self, snapshot_id: int) -> Snapshot:
        """Read one snapshot as it is now; NotFoundError names the ids that exist."""
        try:
            snapshot = self._read_snapshot(snapshot_id)
        except NotFoundError as error:
            self._chain.pop(snapshot_id, None)
            ids = self.snapshot_ids()
            have = f"snapshots {ids[0]} to {ids[-1]} exist" if ids else "the table has no snapshot"
            raise NotFoundError(f"snapshot {snapshot_id} does not exist; {have}", path=error.path) from None
        known = self._chain.get(snapshot_id)
        if known is not None and known.identity != snapshot.identity:
            self._forget_chain()
        return snapshot

    def earlier_snapshot(self, snapshot_id: int) -> Snapshot:
        """Read a snapshot before the last result of `latest_snapshot`; one that was read before is cached.

        For loops over a history; it may have expired since.
        errors   NotFoundError
        """
        found = self._chain.get(snapshot_id)
        if found is None:
            found = self._chain[snapshot_id] = self.load_snapshot(snapshot_id)
        return found

    def forget_snapshot(self, snapshot_id: int) -> None:
        """Drop a snapshot that was read, and is no longer there."""
        self._chain.pop(snapshot_id, None)

    def has_snapshot(self, snapshot_id: int) -> bool:
        """Return True when snapshot-N exists now (by the store, never by the cache)."""
        return self.store.exists(self.paths.snapshot_path(snapshot_id))

    def expired_before(self, missing: int, newest: int) -> bool:
        """Return True when a snapshot that was not there has expired, given a newer one that was listed.

        A rollback takes the newest ones first, an expiry never. False when things changed meanwhile.
        """
        return self.has_snapshot(newest) and not self.has_snapshot(missing)

    def latest_snapshot(self) -> Snapshot | None:
        """Read the newest snapshot now; move forward when expiry deletes one between the listing and the read.

        The hint is valid only if the next id does not exist; otherwise the directory is listed.
        cost     three small requests; one more when there is a newer one than at the last call
        errors   TableReplacedError
        """
        for _ in range(_VANISHED_STEPS):
            hint = self.latest_hint()
            if hint and not self.has_snapshot(hint + 1):
                found = self._newest_or_none(hint)
                if found is not None:
                    return self._follow(found)
            ids = self.snapshot_ids()
            if not ids:
                return self._follow(None)
            found = self._newest_or_none(ids[-1])
            if found is not None:
                return self._follow(found)
        raise NotFoundError(
            "the newest snapshot was deleted each time while it was read; try again", path=self.paths.snapshot_dir
        )

    def append(self, snapshot: Snapshot, before: Snapshot | None, data: bytes) -> None:
        """Adopt a snapshot that was put, as these bytes, on the newest one, `before`, and follows it; None: it is the first."""
        if (self._head and self._head.identity) == (before and before.identity):
            self._head = self._chain[snapshot.id] = snapshot
            self._last_read = data, snapshot

    def latest_hint(self) -> int | None:
        """Read the id that the hint LATEST names; None when it is missing or cannot be read."""
        return self.read_hint(self.paths.latest)

    def earliest_hint(self) -> int | None:
        """Read the id that the hint EARLIEST names; snapshots before it are being deleted, or are deleted."""
        return self.read_hint(self.paths.earliest)

    def latest_snapshot_id(self) -> int | None:
        """Return the id of the newest snapshot, None for a table without one."""
        return None if (latest := self.latest_snapshot()) is None else latest.id

    def snapshots(self) -> Iterator[Snapshot]:
        """Read all snapshots, ascending; those that expire while reading are skipped."""
        self.latest_snapshot()
        for snapshot_id in self.snapshot_ids():
            try:
                yield self.earlier_snapshot(snapshot_id)
            except NotFoundError:
                continue

    # -- schemas -----------------------------------------------------------------------------------------------

    def schema_ids(self) -> list[int]:
        """Return the ids of all schemas, ascending."""
        return sorted(self._list_schemas())

    def load_schema(self, schema_id: int) -> TableSchema:
        """Read one schema version."""
        if (found := self._schemas.get(schema_id)) is None:
            path = self.paths.schema_path(schema_id)
            found = self._schemas[schema_id] = decode_schema(self.store.get(path), path)
        return found

    def latest_schema(self) -> TableSchema:
        """Read the newest schema; NotFoundError when the directory is not a table.

        errors   TableReplacedError
        """
        listed = self._list_schemas()
        if not listed:
            if self._table_id is not None:
                raise TableReplacedError("the table was dropped; it has no schema any more", path=self.paths.root)
            raise _no_table(self.store, self.paths)
        self._check_schemas(listed)
        return self.load_schema(max(listed))

    def seen_schema(self) -> TableSchema:
        """Return the newest schema as this process last saw it: what comes after a commit goes by the schema it was made with."""
        newest = max(self._schema_files, default=None)
        return self.latest_schema() if newest is None else self.load_schema(newest)

    @property
    def table_id(self) -> str:
        """Identity that distinguishes the table from another one created in its place: SHA-256 of its first schema file.

        That file holds the time the table was created, and never changes.
        """
        if self._table_id is None:
            self.latest_schema()
        assert self._table_id is not None
        return self._table_id

    def all_schemas(self) -> list[TableSchema]:
        """Return every schema the table has had."""
        return [self.load_schema(i) for i in self.schema_ids()]

    # -- inside ------------------------------------------------------------------------------------------------

    def _read_snapshot(self, snapshot_id: int) -> Snapshot:
        path, last = self.paths.snapshot_path(snapshot_id), self._last_read
        data = self.store.get(path)
        # The newest one is read before every answer of a lookup, and mostly holds what it held.
        snapshot = last[1] if last is not None and last[0] == data else decode_snapshot(data, path)
        self._last_read = data, snapshot
        if snapshot.id != snapshot_id:
            raise CorruptFileError(f"the file named snapshot {snapshot_id} contains snapshot {snapshot.id}", path=path)
        return snapshot

    def _snapshot_or_none(self, snapshot_id: int) -> Snapshot | None:
        try:
            return self._read_snapshot(snapshot_id)
        except NotFoundError:
            return None

    def _newest_or_none(self, snapshot_id: int) -> Snapshot | None:
        try:
            return self._snapshot_or_none(snapshot_id)
        except CorruptFileError as error:
            raise CorruptFileError(
                f"the newest snapshot is damaged ({error.message}): 'lakeidx rollback TABLE --snapshot N' goes to one before it",
                path=error.path,
                offset=error.offset,
            ) from error

    def _follow(self, head: Snapshot | None) -> Snapshot | None:
        """Set the newest snapshot; drop cached metadata when it does not continue the last one."""
        if (before := self._head) is None:
            if self._looked and head is not None:
                # There was none when we looked before: the first one, or another table's.
                self._forget_chain()
        elif not self._continues(before, head):
            self._forget_chain()
        self._head, self._looked = head, True
        if head is not None:
            self._chain[head.id] = head
        return head

    def _continues(self, before: Snapshot, head: Snapshot | None) -> bool:
        """Return True when `before`, once the newest snapshot, is still part of the history that ends at `head`.

        Then all snapshots before it are, too: a rollback takes the newest first.
        """
        if head is None or head.id < before.id:
            return False
        there = head if head.id == before.id else self._snapshot_or_none(before.id)
        return there is not None and there.identity == before.identity

    def _forget_chain(self) -> None:
        """Forget the cached history when it was replaced or has expired: it may be that of another table."""
        self._head = None
        self._chain.clear()
        self._schemas.clear()
        self._schema_files.clear()
        if self._table_id is not None:
            self.latest_schema()

    def _list_schemas(self) -> dict[int, FileInfo]:
        prefix = "schema-"
        listed = (f for f in self.store.list(self.paths.schema_dir) if f.name.startswith(prefix))
        return {int(f.name[len(prefix) :]): f for f in listed if f.name[len(prefix) :].isdigit()}

    def _check_schemas(self, listed: dict[int, FileInfo]) -> None:
        """Drop cached schemas whose files were replaced; TableReplacedError when the first one is another table's."""
        first, before = min(listed), self._schema_files
        self._schemas = {i: s for i, s in self._schemas.items() if i in before and before[i] == listed.get(i)}
        # Within a tick of a disk's clock another table may have come, its first schema as long as the one before.
        if before.get(first) != listed[first] or listed[first].etag is None:
            path = self.paths.schema_path(first)
            data = self.store.get(path)
            found = hashlib.sha256(data).hexdigest()
            if self._table_id is None:
                self._table_id = found
            elif self._table_id != found:
                raise TableReplacedError(
                    "the table was dropped and created again since it was opened; open it again", path=self.paths.root
                )
            if first == max(listed) and first not in self._schemas:
                self._schemas[first] = decode_schema(data, path)
        self._schema_files = listed

    def read_hint(self, path: str) -> int | None:
        """Return the number in a hint file; None when there is none, or no number in it."""
        try:
            return decode_hint(self.store.get(path))
        except NotFoundError:
            return None

    def ids_in(self, directory: str, prefix: str) -> list[int]:
        """Return the numbers at the end of the names in a directory that begin so, ascending."""
        names = (f.name for f in self.store.list(directory) if f.name.startswith(prefix))
        return sorted(int(n[len(prefix) :]) for n in names if n[len(prefix) :].isdigit())


def _no_table(store: ObjectStore, paths: TablePaths) -> NotFoundError:
    """Return the error for a directory without schemas, with the most similar names of directories beside it."""
    folder, _, name = paths.root.rstrip("/").rpartition("/")
    try:
        beside = [f.name for f in store.list(folder) if f.is_dir and not f.name.startswith("_")] if folder else []
    except LakeIdxError:
        # Whoever may read the table need not be allowed to list its neighbours; the error is the same without them.
        beside = []
    near = difflib.get_close_matches(name, beside, n=3)
    hint = f"did you mean {' or '.join(repr(n) for n in near)}? Else " if near else ""
    text = f"not a Paimon table: it has no schema/schema-0; {hint}create it with `lakeidx table create`"
    return NotFoundError(text, path=paths.root)


def is_same(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Return True when the snapshot is there: neither expired, nor rolled back, nor another one under its id."""
    try:
        return metadata.load_snapshot(snapshot.id).identity == snapshot.identity
    except NotFoundError:
        return False
