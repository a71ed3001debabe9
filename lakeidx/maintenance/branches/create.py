"""Making, listing and deleting branches.

source   org.apache.paimon.utils.FileSystemBranchManager, release 1.4.2
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakeidx.batch.artifacts import staging_root
from lakeidx.errors import CommitConflictError, InvalidInputError, NotFoundError
from lakeidx.format.paths import MAIN_BRANCH, TablePaths
from lakeidx.format.snapshot import encode_snapshot
from lakeidx.maintenance.branches.losses import who_has
from lakeidx.maintenance.branches.report import BranchResult
from lakeidx.storage.base import ObjectStore
from lakeidx.table.expiration.tags import delete_tag, put_tag
from lakeidx.table.history import branch_names, load_tag, past_snapshot, tag_names
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.times import iso_utc


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
