"""Rules over one batch: every row that came in is accounted for, and what was staged was committed."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lakeidx.quality.result import RuleResult, Severity

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


def check_rows_accounted(batch: BatchCounts) -> RuleResult:
    """Check that ingested = inserted + updated + upserted + deleted + rejected, and none of them negative."""
    counts = {n: getattr(batch, n) for n in _COUNTS}
    difference = batch.ingested - batch.accounted
    passed = difference == 0 and min(counts.values()) >= 0
    return RuleResult(
        name="batch_rows_accounted",
        passed=passed,
        severity=Severity.ERROR,
        metrics={"batches": 1, **counts, "rows_unaccounted": abs(difference)},
        sample=() if passed else ({"batch_id": batch.batch_id, **counts, "difference": difference},),
        description="Every ingested row was inserted, updated (or one of the two), deleted or rejected.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRows:
    """Rows of a batch on their way into the table.

    staged      rows that were staged for it
    superseded  of these, rows that a later row of the same batch replaced before anything was written
    committed   rows of the data files that the batch's snapshot adds
    """

    staged: int = 0
    superseded: int = 0
    committed: int = 0


def check_staged_rows_committed(rows: CommittedRows | None) -> RuleResult:
    """Check that staged rows = committed rows + rows superseded inside the batch; nothing is known where the snapshot expired."""
    counts = asdict(rows or CommittedRows())
    lost = counts["staged"] - counts["superseded"] - counts["committed"]
    return RuleResult(
        name="staged_rows_committed",
        passed=lost == 0,
        severity=Severity.ERROR,
        metrics={**counts, "rows_lost": max(0, lost), "rows_too_many": max(0, -lost)},
        sample=(counts,) if lost else (),
        description="Every staged row was committed, or replaced by a later row of its batch.",
    )
