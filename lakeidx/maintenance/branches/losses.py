"""Losses by a destructive verb: of tags, branches, streams (consumers) and held batches."""

from __future__ import annotations

from dataclasses import replace

from lakeidx.batch.staging_walk import walk_staging
from lakeidx.format.paths import MAIN_BRANCH
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.expiration.read import read_consumers, read_tags
from lakeidx.table.history import branch_names, load_tag, tag_names
from lakeidx.table.metadata import TableMetadata, is_same


def who_has(metadata: TableMetadata) -> tuple[str, ...]:
    """Return who has something of a branch, ``consumer ID`` or ``held batch ID``; of a table also its tags and branches."""
    batches = walk_staging(metadata.store, metadata.paths)[0]
    held = [f"held batch {s.batch_id}" for s in batches if s.paths.branch == metadata.paths.branch and s.is_held]
    streams = [f"consumer {c}" for c in read_consumers(metadata)] if metadata.listed_snapshot_ids() else []
    if metadata.paths.branch != MAIN_BRANCH:
        return (*streams, *held)
    tags, branches = tag_names(metadata), branch_names(metadata)
    of_branches = [
        f"{who} of branch {b}" for b in branches
        for who in who_has(TableMetadata(metadata.store, replace(metadata.paths, branch=b)))
    ]  # fmt: skip
    return (*(f"tag {t}" for t in tags), *(f"branch {b}" for b in branches), *streams, *held, *of_branches)


def lost_by_rollback(metadata: TableMetadata, target: int) -> tuple[str, ...]:
    """Return who has read, or keeps, what came after a snapshot."""
    beyond = [c for c, (first, _) in read_consumers(metadata).items() if first > target + 1]
    told = [f"streams that have read later snapshots stop, and begin anew: {', '.join(beyond)}"] if beyond else []
    kept = branch_names(metadata) if metadata.paths.branch == MAIN_BRANCH else []
    return (*told, *([f"branches keep what they have: {', '.join(kept)}"] if kept else []))


def lost_by_tag(metadata: TableMetadata, name: str) -> tuple[str, ...]:
    """Return who reads the state of a tag that nothing else keeps, and which branch began at it."""
    snapshot: Snapshot = load_tag(metadata, name)
    others = [n for n, t in read_tags(metadata).items() if n != name and t.snapshot.identity == snapshot.identity]
    stays = is_same(metadata, snapshot)
    told = [
        f"readers of snapshot {snapshot.id} have it until it expires" if stays
        else f"snapshot {snapshot.id} stays by tags {', '.join(others)}" if others
        else f"readers of the tag: snapshot {snapshot.id} has expired, its state is gone for good"
    ]  # fmt: skip
    branch = name.removeprefix("branch_")
    if branch != name and branch in branch_names(metadata):
        told.append(f"branch {branch} began at it: an expiry by Java may delete files that the branch needs")
    return tuple(told)
