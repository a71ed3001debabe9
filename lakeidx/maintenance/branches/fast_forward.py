"""Bringing a branch into the table.

Java deletes the snapshots, schemas and tags of the table from the branch's first one on, and copies the branch's in their place:
what was committed to the table meanwhile is lost, and a crash in between leaves the table at an older state. Here nothing is
overwritten: a table that has what the branch lacks is refused, and what is copied is complete at each moment.

source   org.apache.paimon.utils.FileSystemBranchManager#fastForward, release 1.4.2
"""

from __future__ import annotations

from lakeidx.errors import CommitConflictError, InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.format.paths import MAIN_BRANCH
from lakeidx.format.snapshot import encode_hint
from lakeidx.maintenance.branches.report import BranchResult
from lakeidx.table.expiration.read import is_there, read_tags
from lakeidx.table.history import tag_names
from lakeidx.table.iceberg.publish import publish_iceberg
from lakeidx.table.metadata import TableMetadata


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
    if head is not None and not is_there(branch, head) and not _began_at(branch, head.id, head.identity, ids[0]):
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
    common = [i for i in main.snapshot_ids() if i < head and is_there(branch, main.load_snapshot(i))]
    tagged = [t.snapshot.id for t in read_tags(branch).values() if t.snapshot.id < head and is_there(main, t.snapshot)]
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
