"""The snapshots of a table follow each other without a hole, and each continues from the one before.

source   org.apache.paimon.operation.FileStoreCommitImpl, release 1.4.2: id = previous + 1; total = previous total +
         delta
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from lakeidx.format.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from lakeidx.quality.result import RuleResult, Severity, bounded

_FAULTS = ("hole", "other_id", "total_does_not_add_up", "committed_twice", "behind_the_hint")


def check_snapshot_chain(snapshots: Mapping[int, Snapshot], *, latest_hint: int | None = None) -> RuleResult:
    """Check that snapshot ids are contiguous and totals add up from one to the next.

    snapshots    the number in a file's name -> what the file says; all snapshots there are, or those from some id on
    latest_hint  what the LATEST file says, None when there is none. It may lag behind, never point beyond
    """
    faults = list(_chain_faults(dict(sorted(snapshots.items())), latest_hint))
    kinds = [fault["fault"] for fault in faults]
    return RuleResult(
        name="snapshot_chain",
        passed=not faults,
        severity=Severity.ERROR,
        metrics={
            "snapshots": len(snapshots),
            "smallest_snapshot_id": min(snapshots, default=0),
            "largest_snapshot_id": max(snapshots, default=0),
            "snapshots_missing": sum(f["to"] - f["from"] + 1 for f in faults if f["fault"] == "hole"),
            **{f"faults_{kind}": kinds.count(kind) for kind in _FAULTS},
        },
        sample=bounded(faults),
        description="Snapshot ids are contiguous, and totals add up from one to the next.",
    )


def _chain_faults(snapshots: Mapping[int, Snapshot], latest_hint: int | None) -> Iterator[dict[str, Any]]:
    for number, snapshot in snapshots.items():
        if snapshot.id != number:
            yield {"fault": "other_id", "snapshot": number, "says": snapshot.id}
    for before, after in pairwise(snapshots):
        if after != before + 1:
            yield {"fault": "hole", "from": before + 1, "to": after - 1}
            continue
        expected = snapshots[before].total_record_count + snapshots[after].delta_record_count
        if snapshots[after].total_record_count != expected:
            yield {
                "fault": "total_does_not_add_up",
                "snapshot": after,
                "total": snapshots[after].total_record_count,
                "expected": expected,
            }
    if latest_hint is not None and latest_hint > max(snapshots, default=0):
        yield {"fault": "behind_the_hint", "latest": max(snapshots, default=0), "hint": latest_hint}
    yield from _repeated_commits(snapshots)


def _repeated_commits(snapshots: Mapping[int, Snapshot]) -> Iterator[dict[str, Any]]:
    # Paimon's batch writers all use one identifier and a fresh user each; only other identifiers name a commit.
    first: dict[tuple[str, int, str], int] = {}
    for number, s in snapshots.items():
        if s.commit_identifier == BATCH_COMMIT_IDENTIFIER:
            continue
        again = first.setdefault((s.commit_user, s.commit_identifier, s.commit_kind), number)
        if again != number:
            yield {
                "fault": "committed_twice",
                "snapshot": number,
                "first": again,
                "commit_user": s.commit_user,
                "commit_identifier": s.commit_identifier,
            }
