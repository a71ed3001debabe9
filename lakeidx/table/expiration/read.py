"""Reads the inputs of the plans of expiry, tag deletion and rollback. What cannot be read any more is None.

An earlier run may have been cut off after it had deleted manifests, so a missing or damaged part is not an error here: the
plans leave out what depends on it and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.format.consumer import decode_consumer, decode_consumer_position
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.manifest_list import ManifestFileMeta
from lakeidx.format.snapshot import Snapshot
from lakeidx.format.tag import Tag, decode_tag
from lakeidx.table.entries import Entries, live_files
from lakeidx.table.expiration.files_to_delete import DataFileKey, SnapshotMetadata, live_keys
from lakeidx.table.history import tag_names
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.in_parallel import in_parallel, requests_of

T = TypeVar("T")


def _or_none(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except (NotFoundError, CorruptFileError):
        return None


def read_metadata(metadata: TableMetadata, snapshot: Snapshot) -> SnapshotMetadata:
    """Read the lists and the index manifest of a snapshot or tag."""

    def manifests(name: str | None, size: int | None) -> tuple[ManifestFileMeta, ...] | None:
        return () if name is None else _or_none(lambda: tuple(metadata.load_manifest_list(name, size)))

    return SnapshotMetadata(
        snapshot=snapshot,
        base=manifests(snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        delta=manifests(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        changelog=manifests(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),
        index=_or_none(lambda: tuple(metadata.load_index_manifest(snapshot.index_manifest))),
    )


def read_all_metadata(metadata: TableMetadata, snapshots: Sequence[Snapshot]) -> list[SnapshotMetadata]:
    """Read the metadata of several snapshots, in parallel."""
    return in_parallel(lambda s: read_metadata(metadata, s), snapshots, threads=requests_of(metadata.store))


def read_changed_files(metadata: TableMetadata, snapshots: Sequence[Snapshot]) -> list[ManifestEntry]:
    """Read the delta entries of several snapshots, of those that can still be read."""

    def read(s: Snapshot) -> Sequence[ManifestEntry]:
        delta = _or_none(lambda: metadata.load_manifest_list(s.delta_manifest_list, s.delta_manifest_list_size))
        return read_entries(metadata, delta) or ()

    found = in_parallel(read, snapshots, threads=requests_of(metadata.store))
    return [e for entries in found for e in entries]


def read_deltas(metadata: TableMetadata, states: Sequence[SnapshotMetadata]) -> dict[int, Entries | None]:
    """Read the delta entries of several snapshots, in parallel; None where one cannot be read."""
    found = in_parallel(lambda m: read_entries(metadata, m.delta), states, threads=requests_of(metadata.store))
    return {m.snapshot.id: entries for m, entries in zip(states, found, strict=True)}


def read_entries(metadata: TableMetadata, manifests: Sequence[ManifestFileMeta] | None) -> Entries | None:
    """Read the entries of manifests in order; None when one cannot be read."""
    if manifests is None:
        return None
    return _or_none(lambda: metadata.load_manifests(manifests))


def read_live(metadata: TableMetadata, state: SnapshotMetadata) -> Entries | None:
    """Read the live data files of a snapshot or tag; None when a manifest cannot be read."""
    if state.base is None or state.delta is None:
        return None
    manifests = [*state.base, *state.delta]
    where = metadata.paths.manifest_path(state.snapshot.base_manifest_list)
    return _or_none(lambda: live_files(metadata.load_manifests(manifests), where=where))


def used_files(metadata: TableMetadata, states: Iterable[SnapshotMetadata]) -> AbstractSet[DataFileKey] | None:
    """Return the live data files of several states together; None when one cannot be read."""
    found: set[DataFileKey] = set()
    for state in states:
        live = read_live(metadata, state)
        if live is None:
            return None
        found |= live_keys(live)
    return found


def read_snapshots(metadata: TableMetadata, ids: Sequence[int]) -> dict[int, Snapshot]:
    """Read snapshots by id, in their order; those that expired meanwhile are left out."""
    found = in_parallel(
        lambda i: _or_missing(lambda: metadata.load_snapshot(i)), ids, threads=requests_of(metadata.store)
    )
    return {i: s for i, s in zip(ids, found, strict=True) if s is not None}


def read_snapshots_to_drop(metadata: TableMetadata, after: int) -> tuple[dict[int, Snapshot], list[int]]:
    """Read all snapshots as `read_snapshots` does; and the ids of damaged ones after a snapshot, which are left out.

    errors   CorruptFileError for a damaged one before it
    """

    def read(snapshot_id: int) -> Snapshot | CorruptFileError | None:
        try:
            return _or_missing(lambda: metadata.load_snapshot(snapshot_id))
        except CorruptFileError as error:
            if snapshot_id <= after:
                raise
            return error

    ids = metadata.snapshot_ids()
    found = dict(zip(ids, in_parallel(read, ids, threads=requests_of(metadata.store)), strict=True))
    snapshots = {i: s for i, s in found.items() if isinstance(s, Snapshot)}
    return snapshots, [i for i, s in found.items() if isinstance(s, CorruptFileError)]


def _or_missing(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except NotFoundError:
        return None


def read_tags(metadata: TableMetadata) -> dict[str, Tag]:
    """Read all tags by name, sorted; a tag deleted while reading is skipped.

    errors   CorruptFileError: nothing may expire while it is unknown what a tag keeps
    """

    def read(name: str) -> Tag | None:
        path = metadata.paths.tag_path(name)
        return _or_missing(lambda: decode_tag(metadata.store.get(path), path))

    names = tag_names(metadata)
    return {n: t for n, t in zip(names, in_parallel(read, names), strict=True) if t is not None}


def read_consumers(metadata: TableMetadata) -> Mapping[str, tuple[int, int]]:
    """Read the consumers: id -> (first snapshot that must stay, modification time of the file in epoch ms).

    That is the first one not read. Where another snapshot has come into the place of the last one read, by a rollback, it is that
    one: once it had expired, nothing would tell the consumer that what it has read is no history any more.
    errors   CorruptFileError
    """
    prefix = "consumer-"
    out: dict[str, tuple[int, int]] = {}
    for file in metadata.store.list(metadata.paths.consumer_dir):
        if file.name.startswith(prefix) and not file.is_dir:
            path = file.path
            data = _or_missing(lambda path=path: metadata.store.get(path))  # type: ignore[misc]
            if data is not None:
                out[file.name[len(prefix) :]] = (_first_kept(metadata, data, path), file.mtime_ms)
    return out


def _first_kept(metadata: TableMetadata, data: bytes, path: str) -> int:
    first, position = decode_consumer(data, path), decode_consumer_position(data, path) or {}
    number, identity = position.get("snapshot"), position.get("identity")
    if isinstance(number, int) and number < first and isinstance(identity, str):
        there = _or_missing(lambda: metadata.load_snapshot(number))
        if there is not None and there.identity != identity:
            return number
    return first
