"""Making, listing and deleting branches.

source   org.apache.paimon.utils.FileSystemBranchManager, release 1.4.2

Bringing a branch into the table.

Java deletes the snapshots, schemas and tags of the table from the branch's first one on, and copies the branch's in their place:
what was committed to the table meanwhile is lost, and a crash in between leaves the table at an older state. Here nothing is
overwritten: a table that has what the branch lacks is refused, and what is copied is complete at each moment.

source   org.apache.paimon.utils.FileSystemBranchManager#fastForward, release 1.4.2
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lakeidx.batch.artifacts import staging_root
from lakeidx.errors import CommitConflictError, InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.format.paths import MAIN_BRANCH, TablePaths
from lakeidx.format.snapshot import encode_hint, encode_snapshot
from lakeidx.maintenance.branches.losses import who_has
from lakeidx.results import Result
from lakeidx.storage.base import ObjectStore
from lakeidx.table.expiration.read import read_tags
from lakeidx.table.expiration.tags import delete_tag, put_tag
from lakeidx.table.history import branch_names, load_tag, past_snapshot, tag_names
from lakeidx.table.iceberg.publish import publish_iceberg
from lakeidx.table.metadata import TableMetadata, is_same
from lakeidx.table.times import iso_utc


@dataclass(frozen=True, slots=True, repr=False)
class BranchResult(Result):
    """A branch that was made, deleted, or brought into the table; with `dry_run` what would become of it.

    snapshot   the newest snapshot, of the branch or after a fast-forward of the table; None: there is none
    snapshots  ids that were copied to the table, or went with the branch
    tags       names that were copied, or went with the branch
    loses      what readers, streams and batches no longer have
    """

    branch: str
    action: str
    snapshot: int | None = None
    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    loses: tuple[str, ...] = ()
    dry_run: bool = False

    def note(self) -> str:
        """Return what was done."""
        return f"branch {self.branch!r} {'would be' if self.dry_run else 'is'} {self.action}"


def create_branch(
    metadata: TableMetadata, name: str, *, tag: str | None = None, snapshot_id: int | None = None
) -> BranchResult:
    """Make a branch at a tag or a snapshot of the table; without either an empty one with the newest schema.

    The files go in Java's order, the first schema last: what has none is no branch yet, and a repeated call completes it.
    errors   InvalidInputError for a name that is no name or taken; NotFoundError for the tag or snapshot; CommitConflictError
             when the tag went meanwhile
    """
    if tag is not None and snapshot_id is not None:
        raise InvalidInputError("a branch begins at a tag or at a snapshot: give one of them")
    if name == MAIN_BRANCH or not name.strip() or name.strip().isdigit() or "$" in name:
        raise InvalidInputError(f"a branch is called otherwise than {name!r}: not main, no number, and without '$'")
    store, paths = metadata.store, replace(metadata.paths, branch=name)
    schema_ids, made = metadata.schema_ids(), TableMetadata(metadata.store, paths)
    if min(schema_ids) in made.schema_ids():
        raise InvalidInputError(f"branch {name!r} exists already", path=metadata.paths.root)
    _clear(store, paths)
    if snapshot_id is not None:
        tag = _own_tag(name)
        put = put_tag(metadata, tag, past_snapshot(metadata, snapshot_id), None)
        if put is None and load_tag(metadata, tag).id != snapshot_id:
            raise InvalidInputError(
                f"tag {tag!r}, which is to keep the branch's snapshot, is on another one: delete it"
            )
    found = None if tag is None else load_tag(metadata, tag)
    if tag is not None and found is not None:
        store.put(paths.tag_path(tag), store.get(metadata.paths.tag_path(tag)))
        store.put(paths.snapshot_path(found.id), encode_snapshot(found))
    newest = max(schema_ids) if found is None else found.schema_id
    for i in sorted((i for i in schema_ids if i <= newest), reverse=True):
        store.put(paths.schema_path(i), store.get(metadata.paths.schema_path(i)))
    if tag is not None and (tag not in tag_names(metadata) or load_tag(metadata, tag) != found):
        _clear(store, paths)
        raise CommitConflictError(
            f"tag {tag!r} went while branch {name!r} was made at it", path=metadata.paths.root,
            snapshot_id=0 if found is None else found.id,
        )  # fmt: skip
    return BranchResult(name, "made" if found else "made, empty", None if found is None else found.id)


def _own_tag(name: str) -> str:
    """Return the tag that keeps the snapshot a branch was made at, where no other tag was named."""
    return f"branch_{name}"


def list_branches(metadata: TableMetadata) -> list[dict[str, Any]]:
    """List the branches: name, newest snapshot and its time, stored rows, oldest snapshot, tags."""
    rows = []
    for name in branch_names(metadata):
        branch = TableMetadata(metadata.store, replace(metadata.paths, branch=name))
        if not branch.schema_ids():
            continue
        head, ids = branch.latest_snapshot(), branch.snapshot_ids()
        rows.append(
            {
                "branch": name,
                "snapshot": None if head is None else head.id,
                "time": None if head is None else iso_utc(head.time_millis),
                "rows": 0 if head is None else head.total_record_count,
                "first": ids[0] if ids else None,
                "tags": tag_names(branch),
            }
        )
    return rows


def delete_branch(metadata: TableMetadata, name: str, *, dry_run: bool = False) -> BranchResult:
    """Delete a branch with the batches staged for it. Its data files stay until `orphans` finds that nothing has them.

    errors   NotFoundError naming the branches; InvalidInputError for one the table reads from (`scan.fallback-branch`)
    """
    if name not in branch_names(metadata):
        have = ", ".join(branch_names(metadata)) or "none"
        raise NotFoundError(f"branch {name!r} does not exist; branches: {have}", path=metadata.paths.root)
    main = TableMetadata(metadata.store, replace(metadata.paths, branch=MAIN_BRANCH))
    options = main.latest_schema().options
    for key in ("scan.fallback-branch", "scan.primary-branch", "branch"):
        if options.get(key) == name:
            raise InvalidInputError(f"the table reads branch {name!r} by its option '{key}': reset that first")
    paths = replace(metadata.paths, branch=name)
    branch = TableMetadata(metadata.store, paths)
    ids, tags = branch.listed_snapshot_ids(), tag_names(branch)
    result = BranchResult(name, "deleted", ids[-1] if ids else None, tuple(ids), tuple(tags), who_has(branch), dry_run)
    if dry_run:
        return result
    _clear(metadata.store, paths)
    if _own_tag(name) in tag_names(main):
        delete_tag(main, main.latest_schema(), _own_tag(name))
    return result


def _clear(store: ObjectStore, paths: TablePaths) -> None:
    """Delete a branch's files, its schemas first, so that no one opens what is left; then what was staged for it."""
    for folder in (paths.schema_dir, paths.branch_root, staging_root(paths)):
        files = [f.path for f in store.walk(folder)]
        store.delete_many(files)
        for parent in sorted({f.rpartition("/")[0] for f in files} | {folder}, key=len, reverse=True):
            store.delete_empty_dir(parent)


def fast_forward(metadata: TableMetadata, name: str, *, dry_run: bool = False) -> BranchResult:
    """Copy what a branch has and its table lacks: schemas, then snapshots, then tags; a repeated call completes it.

    What only the table has of schemas and tags stays, where Java deletes it.
    errors   CommitConflictError when the table has snapshots that the branch lacks, or another schema or tag of one name
    """
    main = TableMetadata.open(metadata.store, metadata.paths.root, branch=MAIN_BRANCH)
    branch = TableMetadata.open(metadata.store, metadata.paths.root, branch=name)
    if name == MAIN_BRANCH:
        raise InvalidInputError("main is the table itself: name the branch to bring into it")
    ids = branch.snapshot_ids()
    if not ids:
        raise NotFoundError(f"branch {name!r} has no snapshot to bring into the table", path=metadata.paths.root)
    head = main.latest_snapshot()
    if head is not None and not is_same(branch, head) and not _began_at(branch, head.id, head.identity, ids[0]):
        raise _diverged(main, branch, name, head.id)
    new = [i for i in ids if i > (head.id if head is not None else 0)]
    schemas = _missing(
        main, name, [(main.paths.schema_path(i), branch.paths.schema_path(i)) for i in branch.schema_ids()]
    )
    tags = _missing(main, name, [(main.paths.tag_path(n), branch.paths.tag_path(n)) for n in tag_names(branch)])
    gap = head is not None and bool(new) and new[0] != head.id + 1
    loses = (f"snapshots up to {head.id}: what followed them has expired on the branch",) if gap and head else ()
    result = BranchResult(
        name, "brought into the table" if new or tags else "in the table already", ids[-1], tuple(new),
        tuple(p.rpartition("/tag-")[2] for p, _ in tags), loses, dry_run,
    )  # fmt: skip
    if not dry_run:
        for path, data in schemas:
            main.store.put_if_absent(path, data)
        _copy_snapshots(main, branch, new, None if head is None else head.id)
        for path, data in tags:
            main.store.put_if_absent(path, data)
        publish_iceberg(main, main.latest_schema())
    return result


def _began_at(branch: TableMetadata, snapshot_id: int, identity: str, first: int) -> bool:
    """Return True when a tag of the branch says that a snapshot was its own, and has expired there since."""
    return snapshot_id < first and any(
        t.snapshot.id == snapshot_id and t.snapshot.identity == identity for t in read_tags(branch).values()
    )


def _diverged(main: TableMetadata, branch: TableMetadata, name: str, head: int) -> LakeIdxError:
    common = [i for i in main.snapshot_ids() if i < head and is_same(branch, main.load_snapshot(i))]
    tagged = [t.snapshot.id for t in read_tags(branch).values() if t.snapshot.id < head and is_same(main, t.snapshot)]
    last = max([*common, *tagged], default=None)
    do = (
        "they parted before the oldest snapshot that is left"
        if last is None
        else f"`lakeidx rollback {main.paths.root} --snapshot {last}` deletes these, and then it can be brought in"
    )
    lacking = f"snapshots {(last or 0) + 1} to {head}" if last is not None else f"snapshot {head}"
    return CommitConflictError(
        f"the table has {lacking}, which branch {name!r} lacks: nothing was changed; {do}",
        path=main.paths.root,
        snapshot_id=head,
    )


def _missing(main: TableMetadata, name: str, pairs: list[tuple[str, str]]) -> list[tuple[str, bytes]]:
    """Return the files of a branch that the table lacks, with their bytes; CommitConflictError where it has other bytes."""
    found = []
    for ours, theirs in pairs:
        data = main.store.get(theirs)
        if not main.store.exists(ours):
            found.append((ours, data))
        elif main.store.get(ours) != data:
            raise CommitConflictError(
                f"the table and branch {name!r} have different files of this name: nothing was changed", path=ours,
                snapshot_id=0,
            )  # fmt: skip
    return found


def _copy_snapshots(main: TableMetadata, branch: TableMetadata, new: list[int], head: int | None) -> None:
    """Put the snapshots: oldest first, each after the one before it, as writers do; where the branch has expired what is between,
    newest first, so that readers see the whole state at once.
    """
    store, gap = main.store, bool(new) and head is not None and new[0] != head + 1
    if gap:
        # A hint is believed while no snapshot follows it. What is before the gap is no longer part of the history: the hint
        # EARLIEST says so, as during an expiry, and `expire` takes it away.
        store.put(main.paths.earliest, encode_hint(new[0]))
        store.delete(main.paths.latest)
    for i in reversed(new) if gap else new:
        data = store.get(branch.paths.snapshot_path(i))
        if (
            not store.put_if_absent(main.paths.snapshot_path(i), data)
            and store.get(main.paths.snapshot_path(i)) != data
        ):
            raise CommitConflictError(
                f"snapshot {i} was committed to the table meanwhile: stop its writers",
                path=main.paths.root,
                snapshot_id=i,
            )
    if new:
        store.put(main.paths.latest, str(new[-1]).encode())
