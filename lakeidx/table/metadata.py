"""Reads a table's small metadata files: hints, snapshots, schemas, manifests, index manifests, tags.

All of these files but the hints are written once under a name that is never used again, so what was decoded is kept:
schemas and snapshots without bound (they are small), manifests by the bytes of their files.

source   org.apache.paimon.utils.SnapshotManager, HintFileUtils; org.apache.paimon.schema.SchemaManager, release 1.4.2
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.index_manifest import IndexEntry, decode_index_manifest
from lakeidx.format.manifest import ManifestEntry, decode_manifest
from lakeidx.format.manifest_list import ManifestFileMeta, decode_manifest_list
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema import TableSchema, decode_schema
from lakeidx.format.snapshot import Snapshot, decode_snapshot
from lakeidx.storage.base import ObjectStore

T = TypeVar("T")

#: Bytes of encoded manifests whose decoded entries are kept.
MANIFEST_CACHE_BYTES = 64 << 20

#: How often a reader looks again when the snapshot it was told of has just been expired.
_VANISHED_STEPS = 300


class TableMetadata:
    """The metadata files of one table directory.

    store   where the table lies
    paths   names of its files
    """

    def __init__(self, store: ObjectStore, paths: TablePaths) -> None:
        self.store = store
        self.paths = paths
        self._schemas: dict[int, TableSchema] = {}
        self._snapshots: dict[int, Snapshot] = {}
        self._cache: OrderedDict[str, tuple[int, Any]] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> tuple[ObjectStore, TablePaths]:
        # Spark tasks get a fresh cache: what the driver has decoded is not worth its bytes.
        return self.store, self.paths

    def __setstate__(self, state: tuple[ObjectStore, TablePaths]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    # -- snapshots ---------------------------------------------------------------------------------------------

    def snapshot_ids(self) -> list[int]:
        """Ids of all snapshots that are there now, ascending (one listing)."""
        return self._ids_in(self.paths.snapshot_dir, "snapshot-")

    def latest_snapshot_id(self) -> int | None:
        """Id of the newest snapshot, None for a table without one.

        The hint is believed only if the next id does not exist; otherwise the directory is listed.
        """
        hint = self._hint(self.paths.latest)
        if hint and not self.has_snapshot(hint + 1) and self.has_snapshot(hint):
            return hint
        ids = self.snapshot_ids()
        return ids[-1] if ids else None

    def earliest_snapshot_id(self) -> int | None:
        """Id of the oldest snapshot that is still there."""
        hint = self._hint(self.paths.earliest)
        if hint is not None and self.store.exists(self.paths.snapshot(hint)):
            return hint
        ids = self.snapshot_ids()
        return ids[0] if ids else None

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """One snapshot; NotFoundError names the ids that exist."""
        found = self._snapshots.get(snapshot_id)
        if found is not None:
            return found
        path = self.paths.snapshot(snapshot_id)
        try:
            data = self.store.get(path)
        except NotFoundError:
            ids = self.snapshot_ids()
            have = f"snapshots {ids[0]} to {ids[-1]} exist" if ids else "the table has no snapshot"
            raise NotFoundError(f"snapshot {snapshot_id} does not exist; {have}", path=path) from None
        snapshot = decode_snapshot(data, path)
        self._snapshots[snapshot_id] = snapshot
        return snapshot

    def forget_snapshot(self, snapshot_id: int) -> None:
        """Drop a snapshot from the cache: it was deleted or replaced."""
        self._snapshots.pop(snapshot_id, None)

    def has_snapshot(self, snapshot_id: int) -> bool:
        """True when snapshot-N exists now (asked of the store, never of the cache)."""
        return self.store.exists(self.paths.snapshot(snapshot_id))

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot; steps forward when expiry takes one away between the look and the read."""
        for _ in range(_VANISHED_STEPS):
            snapshot_id = self.latest_snapshot_id()
            if snapshot_id is None:
                return None
            try:
                return self.snapshot(snapshot_id)
            except NotFoundError:
                continue
        raise NotFoundError(
            "the newest snapshot vanished again and again while it was read", path=self.paths.snapshot_dir
        )

    def snapshots(self) -> Iterator[Snapshot]:
        """All snapshots, ascending; those that expire meanwhile are passed over."""
        for snapshot_id in self.snapshot_ids():
            try:
                yield self.snapshot(snapshot_id)
            except NotFoundError:
                continue

    def snapshot_at(self, timestamp_ms: int) -> Snapshot:
        """The newest snapshot whose time is at or before `timestamp_ms` (epoch ms)."""
        best: Snapshot | None = None
        ids = self.snapshot_ids()
        low, high = 0, len(ids) - 1
        # Commit times do not decrease with the id, so a binary search reads few of a long history.
        while low <= high:
            middle = (low + high) // 2
            snapshot = self.snapshot(ids[middle])
            if snapshot.time_millis <= timestamp_ms:
                best, low = snapshot, middle + 1
            else:
                high = middle - 1
        if best is None:
            raise NotFoundError(f"no snapshot at or before {timestamp_ms} (epoch ms)", path=self.paths.snapshot_dir)
        return best

    def tag(self, name: str) -> Snapshot:
        """The snapshot a tag keeps; NotFoundError names the tags that exist."""
        path = self.paths.tag(name)
        try:
            data = self.store.get(path)
        except NotFoundError:
            have = ", ".join(self.tag_names()) or "none"
            raise NotFoundError(f"tag {name!r} does not exist; tags: {have}", path=path) from None
        return decode_snapshot(data, path)

    def tag_names(self) -> list[str]:
        """Names of all tags, sorted."""
        prefix = "tag-"
        return sorted(f.name[len(prefix) :] for f in self.store.list(self.paths.tag_dir) if f.name.startswith(prefix))

    # -- schemas -----------------------------------------------------------------------------------------------

    def schema_ids(self) -> list[int]:
        """Ids of all schemas, ascending."""
        return self._ids_in(self.paths.schema_dir, "schema-")

    def schema(self, schema_id: int) -> TableSchema:
        """One schema version."""
        found = self._schemas.get(schema_id)
        if found is None:
            path = self.paths.schema(schema_id)
            found = self._schemas[schema_id] = decode_schema(self.store.get(path), path)
        return found

    def latest_schema(self) -> TableSchema:
        """The newest schema; InvalidInputError when the directory is not a table."""
        ids = self.schema_ids()
        if not ids:
            raise NotFoundError(
                "not a Paimon table: it has no schema/schema-0; create it with `lakeidx table create`",
                path=self.paths.root,
            )
        return self.schema(ids[-1])

    # -- manifests ---------------------------------------------------------------------------------------------

    def manifest_list(self, name: str) -> list[ManifestFileMeta]:
        """Entries of one manifest list."""
        return self._cached(self.paths.manifest(name), decode_manifest_list)

    def manifest(self, name: str) -> list[ManifestEntry]:
        """Entries of one manifest; callers must not change the list."""
        return self._cached(self.paths.manifest(name), decode_manifest)

    def index_manifest(self, name: str | None) -> list[IndexEntry]:
        """Entries of one index manifest; none for a snapshot without."""
        return [] if name is None else self._cached(self.paths.manifest(name), decode_index_manifest)

    def data_manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """All data manifests of a snapshot: base list, then delta list."""
        return [*self.manifest_list(snapshot.base_manifest_list), *self.manifest_list(snapshot.delta_manifest_list)]

    # -- inside ------------------------------------------------------------------------------------------------

    def _cached(self, path: str, decode: Callable[[bytes, str], list[T]]) -> list[T]:
        with self._lock:
            hit = self._cache.get(path)
            if hit is not None:
                self._cache.move_to_end(path)
                return hit[1]
        data = self.store.get(path)
        value = decode(data, path)
        with self._lock:
            if path not in self._cache:
                self._cache[path] = (len(data), value)
                self._cached_bytes += len(data)
            while self._cached_bytes > MANIFEST_CACHE_BYTES and len(self._cache) > 1:
                _, (size, _dropped) = self._cache.popitem(last=False)
                self._cached_bytes -= size
        return value

    def _hint(self, path: str) -> int | None:
        try:
            text = self.store.get(path).decode("ascii").strip()
        except NotFoundError:
            return None
        except UnicodeDecodeError:
            return None
        # A hint is only a hint: when it cannot be read, the listing tells.
        return int(text) if text.isdigit() else None

    def _ids_in(self, directory: str, prefix: str) -> list[int]:
        names = (f.name for f in self.store.list(directory) if f.name.startswith(prefix))
        return sorted(int(n[len(prefix) :]) for n in names if n[len(prefix) :].isdigit())


def time_travel(
    metadata: TableMetadata, *, snapshot_id: int | None = None, tag: str | None = None, timestamp_ms: int | None = None
) -> Snapshot | None:
    """The snapshot a read asks for: one of id, tag or timestamp, or the newest; None for a table without snapshots."""
    asked = [n for n, v in (("snapshot", snapshot_id), ("tag", tag), ("timestamp", timestamp_ms)) if v is not None]
    if len(asked) > 1:
        raise InvalidInputError(f"a scan reads one state: give only one of {', '.join(asked)}")
    if snapshot_id is not None:
        return metadata.snapshot(snapshot_id)
    if tag is not None:
        return metadata.tag(tag)
    if timestamp_ms is not None:
        return metadata.snapshot_at(timestamp_ms)
    return metadata.latest_snapshot()
