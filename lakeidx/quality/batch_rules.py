"""Rules over one batch: every row that came in is accounted for, and what was staged was committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakeidx.quality.result import PartitionName, RuleResult, Severity, bounded

_COUNTS = ("ingested", "inserted", "updated", "upserted", "deleted", "rejected")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounts:
    """Counts of the rows of a batch, by what became of them.

    ingested   rows read from the landing files
    inserted   rows whose key was not known before (the first of each)
    updated    rows whose key was known
    upserted   rows of one or the other, where nobody looks (fixed buckets)
    deleted    rows that retract their key (-U, -D)
    rejected   rows that cannot be kept
    """

    batch_id: str
    ingested: int
    inserted: int
    updated: int
    deleted: int
    rejected: int
    upserted: int = 0

    @property
    def accounted(self) -> int:
        """Rows of all outcomes."""
        return self.inserted + self.updated + self.upserted + self.deleted + self.rejected


def check_rows_accounted(batches: Iterable[BatchCounts]) -> RuleResult:
    """Check that ingested = inserted + updated + upserted + deleted + rejected, in every batch, and none of them negative."""
    checked = list(batches)
    offenders = []
    for b in checked:
        counts = {n: getattr(b, n) for n in _COUNTS}
        if b.ingested != b.accounted or min(counts.values()) < 0:
            offenders.append({"batch_id": b.batch_id, **counts, "difference": b.ingested - b.accounted})
    return RuleResult(
        name="batch_rows_accounted",
        passed=not offenders,
        severity=Severity.ERROR,
        metrics={
            "batches": len(checked),
            **{n: sum(getattr(b, n) for b in checked) for n in _COUNTS},
            "rows_unaccounted": sum(abs(b.ingested - b.accounted) for b in checked),
        },
        sample=bounded(offenders),
        description="Every ingested row was inserted, updated (or one of the two), deleted or rejected.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRows:
    """Rows of a batch on their way into a bucket; `partition` and `bucket` None: of the whole batch.

    staged      rows that were staged for it
    superseded  of these, rows that a later row of the same batch replaced before anything was written
    committed   rows of the data files that the batch's snapshot adds
    """

    partition: bytes | None = None
    bucket: int | None = None
    staged: int
    superseded: int = 0
    committed: int


def check_staged_rows_committed(
    rows: Iterable[CommittedRows], *, partition_name: PartitionName = bytes.hex
) -> RuleResult:
    """Check that staged rows = committed rows + rows superseded inside the batch, bucket by bucket."""
    checked = list(rows)
    offenders = [r for r in checked if r.staged != r.committed + r.superseded]
    return RuleResult(
        name="staged_rows_committed",
        passed=not offenders,
        severity=Severity.ERROR,
        metrics={
            "staged": sum(r.staged for r in checked),
            "superseded": sum(r.superseded for r in checked),
            "committed": sum(r.committed for r in checked),
            "rows_lost": sum(max(0, r.staged - r.committed - r.superseded) for r in checked),
            "rows_too_many": sum(max(0, r.committed + r.superseded - r.staged) for r in checked),
        },
        sample=bounded(
            {
                "partition": None if r.partition is None else partition_name(r.partition),
                "bucket": r.bucket,
                "staged": r.staged,
                "superseded": r.superseded,
                "committed": r.committed,
            }
            for r in offenders
        ),
        description="Every staged row was committed, or replaced by a later row of its batch.",
    )
