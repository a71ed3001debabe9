"""Orphans: files in a table's directory that nothing refers to. Left by writers that died, lost a race, or were cut off.

A file is an orphan only when it is old enough and no snapshot, tag or long-lived changelog of any branch reaches it. The
directory is listed first and the metadata read afterwards, so a file that is committed in the meantime is seen as used; files that
are written but not committed yet are protected by their age, and those of staged batches by name.

source   org.apache.paimon.operation.OrphanFilesClean, LocalOrphanFilesClean, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.format.file_names import NameKind, parse_file_name
from lakeidx.format.partition_names import parse_bucket_dir
from lakeidx.format.paths import MAIN_BRANCH, TablePaths
from lakeidx.format.snapshot import Snapshot, decode_snapshot
from lakeidx.storage.base import FileInfo
from lakeidx.table.history import branch_names
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.in_parallel import in_parallel, parallel_walk

T = TypeVar("T")

#: Age under which nothing is an orphan, as Paimon's procedure has it.
DEFAULT_AGE_MS = 86_400_000
_METADATA_DIRS = frozenset(
    {"schema", "snapshot", "manifest", "index", "statistics", "tag", "changelog", "consumer", "branch"}
)
_METADATA_KINDS = frozenset({NameKind.MANIFEST, NameKind.MANIFEST_LIST, NameKind.INDEX_MANIFEST, NameKind.INDEX,
                             NameKind.STATISTICS})  # fmt: skip
#: What a commit writes before its snapshot; a snapshot's own temporary file among it.
_COMMIT_KINDS = frozenset({NameKind.MANIFEST, NameKind.MANIFEST_LIST, NameKind.INDEX_MANIFEST, NameKind.TEMP})
_COMPANIONS = frozenset({NameKind.FILE_INDEX, NameKind.LOOKUP})


@dataclass(frozen=True, slots=True)
class OrphanReport:
    """Report of orphans that were found, or removed.

    files     orphans, by path
    scanned   files examined
    removed   False for a dry run
    """

    files: tuple[FileInfo, ...]
    scanned: int
    removed: bool

    @property
    def bytes(self) -> int:
        """Bytes of the orphans."""
        return sum(f.size for f in self.files)


@dataclass(frozen=True, slots=True)
class Protected:
    """Files that no snapshot refers to yet, but one soon may.

    names               file names
    since_ms            files changed then or later (epoch ms): batches are writing; None = no batch is
    metadata_since_ms   likewise for manifests and lists only: batches are committing
    """

    names: frozenset[str] = frozenset()
    since_ms: int | None = None
    metadata_since_ms: int | None = None

    def is_too_new(self, file: FileInfo) -> bool:
        """Return True for a file that a batch may just have written."""
        if self.since_ms is not None and file.mtime_ms >= self.since_ms:
            return True
        if self.metadata_since_ms is None or file.mtime_ms < self.metadata_since_ms:
            return False
        return parse_file_name(file.name).kind in _COMMIT_KINDS


def find_orphans(
    metadata: TableMetadata,
    *,
    now_ms: int,
    older_than_ms: int = DEFAULT_AGE_MS,
    protected: Callable[[], Protected] | None = None,
) -> OrphanReport:
    """Find orphans; nothing is changed.

    now_ms          epoch ms
    older_than_ms   files changed later than so long ago are left alone
    protected       called after the listing: what belongs to batches that are not committed yet
    errors          CorruptFileError, UnavailableError: while a snapshot, tag or manifest cannot be read, it is unknown what it
                    keeps, and nothing is called an orphan; InvalidInputError for a negative age
    """
    if older_than_ms < 0:
        raise InvalidInputError("the age of orphans cannot be negative")
    candidates = [f for f in _candidates(metadata) if now_ms - f.mtime_ms > older_than_ms]
    # First the listing, then the batches, then the metadata: a file that is staged in between is known by its batch, one
    # that is committed in between by its snapshot.
    safe = protected() if protected is not None else Protected()
    used = used_names(metadata) | safe.names
    orphans = [f for f in candidates if _is_orphan(f, used) and not safe.is_too_new(f)]
    return OrphanReport(tuple(sorted(orphans, key=lambda f: f.path)), len(candidates), removed=False)


def remove_orphans(metadata: TableMetadata, report: OrphanReport) -> OrphanReport:
    """Delete what `find_orphans` found."""
    metadata.store.delete_many(f.path for f in report.files)
    return OrphanReport(report.files, report.scanned, removed=True)


def used_names(metadata: TableMetadata) -> set[str]:
    """Return the names of all files that any state of any branch refers to.

    Entries of kind DELETE count, too: an older snapshot that is still there may need the file.
    errors   NotFoundError for a manifest or list that a state still refers to; CorruptFileError, UnavailableError
    """
    return _used_names(metadata, _branches(metadata))


def names_that_are_read(metadata: TableMetadata, *, but_by: str | None = None) -> set[str]:
    """Return the names of `used_names`, as far as they can be read: an expiry may be running, or have died.

    A name that is there is sure to be of a file that was committed.
    but_by   leave out the snapshots of this commit user: they may not be part of the history
    """
    return _used_names(metadata, _branches(metadata), whole=False, but_by=but_by)


def names_in_branches(metadata: TableMetadata) -> set[str]:
    """Return the names of all files that the states of branches other than this one refer to.

    cost     one listing for a table without branches
    errors   as `used_names`
    """
    return _used_names(metadata, (p for p in _branches(metadata) if p.branch != metadata.paths.branch))


def _used_names(
    metadata: TableMetadata, branches: Iterable[TablePaths], *, whole: bool = True, but_by: str | None = None
) -> set[str]:
    left_out = f"{metadata.paths.snapshot_dir}/"
    states = [
        s
        for s in _all_states(metadata, branches)
        if s.snapshot.commit_user != but_by or not s.path.startswith(left_out)
    ]
    wanted = {name for s in states for name in s.lists}
    lists = _read(lambda name: [m.file_name for m in metadata.load_manifest_list(name)], wanted)
    names: set[str] = set()

    def add_files(manifest: str) -> bool:
        # Threads share the set: the same file is in many manifests.
        names.update(_files_in(metadata, manifest))
        return True

    manifests = _read(add_files, {n for found in lists.values() for n in found or ()})
    indexes = _read(
        lambda name: {e.file_name for e in metadata.load_index_manifest(name)},
        {s.snapshot.index_manifest for s in states if s.snapshot.index_manifest is not None},
    )
    lost = {name for name, content in (*lists.items(), *manifests.items(), *indexes.items()) if content is None}
    for state in states:
        needed = {*state.needed, *(n for name in state.needed for n in lists.get(name) or ())}
        missing = sorted(needed & lost)
        # Expired while we looked: what only it kept is going anyway. A state that is still there must be whole.
        if whole and missing and metadata.store.exists(state.path):
            raise NotFoundError(
                f"{state.path} refers to a file that does not exist", path=metadata.paths.manifest_path(missing[0])
            )
    names.update(s.snapshot.statistics for s in states if s.snapshot.statistics is not None)
    names.update(lists, manifests, indexes, *(f for f in indexes.values() if f is not None))
    return names


@dataclass(frozen=True, slots=True)
class _State:
    """A snapshot, tag or long-lived changelog that refers to files.

    lists    names of its manifest lists
    needed   names of those, and of its index manifest, that must be there
    """

    path: str
    snapshot: Snapshot
    needed: frozenset[str]

    @property
    def lists(self) -> frozenset[str]:
        s = self.snapshot
        return _named(s.base_manifest_list, s.delta_manifest_list, s.changelog_manifest_list)


def _named(*names: str | None) -> frozenset[str]:
    return frozenset(n for n in names if n is not None)


def _state_of(path: str, snapshot: Snapshot, kind: str, *, is_first: bool) -> _State:
    """Return a state with what it needs.

    A changelog goes with its snapshot, also where a tag keeps the rest; what makes a snapshot out of a tag (a branch, a rollback
    of Java) puts it there, as the first one, with the name of what is gone. A long-lived changelog needs nothing else.
    kind       beginning of the file's name
    is_first   there is no file of that kind right before it
    """
    changelog = _named(snapshot.changelog_manifest_list)
    if kind == "changelog-":
        return _State(path, snapshot, changelog)
    rows = _named(snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest)
    return _State(path, snapshot, rows if kind == "tag-" or is_first else rows | changelog)


def _files_in(metadata: TableMetadata, manifest: str) -> set[str]:
    """Return the names of the files that the entries of a manifest have."""
    return {name for e in metadata.load_manifest(manifest) for name in (e.file.file_name, *e.file.extra_files)}


def _read(read: Callable[[str], T], names: Iterable[str]) -> dict[str, T | None]:
    """Read files side by side, each once; None for one that does not exist."""

    def or_none(name: str) -> T | None:
        try:
            return read(name)
        except NotFoundError:
            return None

    ordered = sorted(names)
    return dict(zip(ordered, in_parallel(or_none, ordered), strict=True))


def _all_states(metadata: TableMetadata, branches: Iterable[TablePaths]) -> Iterator[_State]:
    """Return the snapshots, tags and changelogs of branches."""
    for paths in branches:
        for directory, prefix in (
            (paths.snapshot_dir, "snapshot-"),
            (paths.changelog_dir, "changelog-"),
            (paths.tag_dir, "tag-"),
        ):
            named = {
                info.name: info.path
                for info in metadata.store.list(directory)
                if not info.is_dir
                and info.name.startswith(prefix)
                and (prefix == "tag-" or info.name[len(prefix) :].isdigit())
            }
            # One that is missing expired while we looked: what only it kept is going anyway.
            found = _read(lambda path: decode_snapshot(metadata.store.get(path), path), named.values())
            for path, snapshot in found.items():
                if snapshot is not None:
                    is_first = f"{prefix}{snapshot.id - 1}" not in named
                    yield _state_of(path, snapshot, prefix, is_first=is_first)


def _branches(metadata: TableMetadata) -> Iterator[TablePaths]:
    yield replace(metadata.paths, branch=MAIN_BRANCH)
    for name in branch_names(metadata):
        yield TablePaths(metadata.paths.root, branch=name)


def _candidates(metadata: TableMetadata) -> Iterator[FileInfo]:
    """Return the files that could be orphans: metadata, index and data files, and leftovers of unfinished writes."""
    prefix = metadata.paths.root.rstrip("/") + "/"
    for info in parallel_walk(metadata.store, metadata.paths.root):
        if not info.path.startswith(prefix):
            raise CorruptFileError("a listing gave a path outside the table", path=info.path)
        if _may_be_orphan(*info.path[len(prefix) :].split("/")):
            yield info


def _may_be_orphan(*parts: str) -> bool:
    """Tell by the parts of a path below the table's directory."""
    *parents, name = parts
    kind = parse_file_name(name).kind
    if len(parents) == 3 and parents[0] == "branch" and parents[1].startswith("branch-"):
        parents = parents[2:]
    if kind is NameKind.TEMP:
        return True
    if len(parents) == 1 and parents[0] in _METADATA_DIRS:
        return kind in _METADATA_KINDS
    in_bucket = bool(parents) and parse_bucket_dir(parents[-1]) is not None
    return in_bucket and kind in (NameKind.DATA, NameKind.INDEX, *_COMPANIONS)


def _is_orphan(info: FileInfo, used: set[str]) -> bool:
    name = parse_file_name(info.name)
    if info.name in used:
        return False
    # A companion that no entry names still belongs to its data file (lookup files are listed elsewhere).
    return not (name.kind is NameKind.LOOKUP and name.label in used)
