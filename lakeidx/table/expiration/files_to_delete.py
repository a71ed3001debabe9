"""Files that expiry, deleting a tag and rolling back remove, and the plan that lists them in order."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum

from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.manifest_list import ManifestFileMeta
from lakeidx.format.snapshot import Snapshot

#: A data file wherever its level: (partition bytes, bucket, file name).
DataFileKey = tuple[bytes, int, str]


class Role(StrEnum):
    """Kind of a file, which decides its directory."""

    DATA = "data"
    EXTRA = "extra"
    CHANGELOG = "changelog"
    INDEX = "index"
    MANIFEST = "manifest"
    STATISTICS = "statistics"
    SNAPSHOT = "snapshot"
    TAG = "tag"
    LONG_LIVED_CHANGELOG = "long-lived changelog"


@dataclass(frozen=True, slots=True)
class FileToDelete:
    """A file to delete.

    name            file name; the id for SNAPSHOT and LONG_LIVED_CHANGELOG, the tag's name for TAG. MANIFEST also stands
                    for manifest lists and index manifests: they are in one directory
    size            bytes, None when the metadata do not say
    partition       of data, extra, changelog and index files
    external_path   whole path of the data file (also for its extra files) or of the index file, when it lies elsewhere
    """

    role: Role
    name: str
    size: int | None = None
    partition: bytes = b""
    bucket: int = -1
    external_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePlan:
    """Steps of an expiry, in order.

    snapshots_gone      ids whose snapshot files go
    latest_hint         write LATEST first (rollback)
    restore_snapshot    write this snapshot file (from its tag) and EARLIEST before anything goes (rollback)
    changelog_hint      write changelog/LATEST before long-lived changelogs go; -1 when none is left (rollback)
    keep_as_changelog   write these to ``changelog/changelog-<id>`` before their snapshot files go
    phases              files to delete, phase after phase; inside a phase any order
    earliest_hint       write EARLIEST first: from then on no one tags the snapshots that go, even if the rest is cut off
    notes               what was left out and why
    """

    snapshots_gone: tuple[int, ...] = ()
    latest_hint: int | None = None
    restore_snapshot: Snapshot | None = None
    changelog_hint: int | None = None
    keep_as_changelog: tuple[Snapshot, ...] = ()
    phases: tuple[tuple[FileToDelete, ...], ...] = ()
    earliest_hint: int | None = None
    notes: tuple[str, ...] = ()

    def sparing(self, names: AbstractSet[str]) -> ExpirePlan:
        """Remove the data, index and metadata files of these names from the plan."""
        if not names:
            return self
        own = (Role.SNAPSHOT, Role.TAG, Role.LONG_LIVED_CHANGELOG)
        phases = tuple(tuple(f for f in phase if f.role in own or f.name not in names) for phase in self.phases)
        return replace(self, phases=phases)

    @property
    def files(self) -> list[FileToDelete]:
        """All files, in order."""
        return [f for phase in self.phases for f in phase]

    @property
    def touched_buckets(self) -> list[tuple[bytes, int]]:
        """(partition, bucket) pairs that lose data or changelog files: their directories may be empty afterwards."""
        inside = (Role.DATA, Role.CHANGELOG)
        return list(dict.fromkeys((f.partition, f.bucket) for f in self.files if f.role in inside))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMetadata:
    """The metadata files of a snapshot or tag. A part that cannot be read any more is None.

    base, delta   manifests in these lists
    changelog     manifests in the changelog list; () for a snapshot without one
    index         entries of the index manifest; () for a snapshot without one
    """

    snapshot: Snapshot
    base: tuple[ManifestFileMeta, ...] | None
    delta: tuple[ManifestFileMeta, ...] | None
    changelog: tuple[ManifestFileMeta, ...] | None = ()
    index: tuple[IndexEntry, ...] | None = ()

    def names(self) -> frozenset[str] | None:
        """Return the names of all metadata and index files that a reader of the state needs; None when a part is unreadable.

        Changelogs are not among them: no two snapshots share one, and a tag outlives that of its snapshot.
        """
        if self.base is None or self.delta is None or self.index is None:
            return None
        s = self.snapshot
        names = {s.base_manifest_list, s.delta_manifest_list, *(m.file_name for m in (*self.base, *self.delta))}
        names |= {e.file_name for e in self.index}
        return frozenset(names | {n for n in (s.index_manifest, s.statistics) if n is not None})


def data_file_key(entry: ManifestEntry) -> DataFileKey:
    """Return the key of the file an entry names, whatever its level."""
    return entry.partition, entry.bucket, entry.file.file_name


def live_keys(entries: Iterable[ManifestEntry]) -> frozenset[DataFileKey]:
    """Return the files of folded (live) entries."""
    return frozenset(data_file_key(e) for e in entries)


def data_files_to_delete(entry: ManifestEntry, role: Role = Role.DATA) -> list[FileToDelete]:
    """List a data or changelog file, and with a data file its extra files."""
    f = entry.file
    where = (entry.partition, entry.bucket, f.external_path)
    extras = [FileToDelete(Role.EXTRA, name, None, *where) for name in f.extra_files] if role is Role.DATA else []
    return [*extras, FileToDelete(role, f.file_name, f.file_size, *where)]


def metadata_to_delete(
    m: SnapshotMetadata, kept: set[str], *, lists: bool = True, changelog: bool = True
) -> list[FileToDelete]:
    """Return metadata files of one snapshot that are to be deleted, children before the lists that name them.

    kept   names to keep; what is unneeded here is added, so that no file is named twice
    """
    out: list[FileToDelete] = []

    def doom(role: Role, name: str | None, size: int | None = None, entry: IndexEntry | None = None) -> None:
        if name is None or name in kept:
            return
        kept.add(name)
        if entry is None:
            out.append(FileToDelete(role, name, size))
        else:
            out.append(FileToDelete(role, name, size, entry.partition, entry.bucket, entry.external_path))

    s = m.snapshot
    parts: list[tuple[tuple[ManifestFileMeta, ...] | None, str | None, int | None]] = []
    if lists:
        parts += [(m.base, s.base_manifest_list, s.base_manifest_list_size)]
        parts += [(m.delta, s.delta_manifest_list, s.delta_manifest_list_size)]
    if changelog:
        parts += [(m.changelog, s.changelog_manifest_list, s.changelog_manifest_list_size)]
    for manifests, list_name, list_size in parts:
        for meta in manifests or ():
            doom(Role.MANIFEST, meta.file_name, meta.file_size)
        doom(Role.MANIFEST, list_name, list_size)
    for entry in m.index or ():
        doom(Role.INDEX, entry.file_name, entry.file_size, entry)
    doom(Role.MANIFEST, s.index_manifest)
    doom(Role.STATISTICS, s.statistics)
    return out


def children_first(files: Iterable[FileToDelete]) -> list[tuple[FileToDelete, ...]]:
    """Split metadata into phases: listed files first, then the lists (in the order of `metadata_to_delete`)."""
    lists: list[FileToDelete] = []
    rest: list[FileToDelete] = []
    for f in files:
        is_list = f.name.startswith(("manifest-list-", "index-manifest-"))
        (lists if is_list and f.role is Role.MANIFEST else rest).append(f)
    return [tuple(rest), tuple(lists)]
