"""Results of the verbs of upkeep that have no report of their own below."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from lakeidx.results import Listing, Result
from lakeidx.tasks.limits import peak_bytes

if TYPE_CHECKING:
    from lakeidx.format.schema.schema_file import TableSchema
    from lakeidx.quality.result import RuleResult
    from lakeidx.storage.base import FileInfo
    from lakeidx.table.expiration.apply import DeletedFile
    from lakeidx.table.expiration.rollback import RollbackReport


def _file_list(files: Sequence[DeletedFile]) -> list[dict[str, Any]]:
    """Return the files to delete, for a dry run."""
    return [{"role": f.role.value, "path": f.path, "bytes": f.size} for f in files]


@dataclass(frozen=True, slots=True, repr=False)
class ExpireResult(Result):
    """Result of an expiry, or with dry_run its plan.

    metrics     as `lakeidx.maintenance.snapshot_expiry.run_snapshot_expiry` gives them
    retention   what was kept by: numbers and time in force
    """

    metrics: Mapping[str, Any]
    retention: str

    @classmethod
    def of(cls, metrics: Mapping[str, Any], schema: TableSchema, given: Mapping[str, str]) -> Self:
        """Return the result of an expiry by the table's options and what was given in their place."""
        options = {**schema.options, **given}
        least = options.get("snapshot.num-retained.min", "10")
        age = options.get("snapshot.time-retained", "1 h")
        most = options.get("snapshot.num-retained.max")
        at_most = "" if most is None else f", at most {most}"
        return cls(metrics, f"at least {least} snapshots{at_most}, and those of the last {age}")

    @property
    def snapshots(self) -> tuple[int, ...]:
        """Ids of the deleted snapshots."""
        return tuple(self.metrics["snapshots"])

    def as_dict(self) -> dict[str, Any]:
        """Return the metrics, and what was kept by."""
        return {**self.metrics, "retention": self.retention}

    def note(self) -> str:
        """Return what was deleted, or why nothing was, and which batches wait for somebody."""
        held = self.metrics.get("staging", {}).get("held", ())
        waits = f"; held batches stay staged: {', '.join(held)}" if held else ""
        return self._said() + waits

    def _said(self) -> str:
        if not self.metrics["snapshots"]:
            return f"no snapshot expires: kept are {self.retention}, and what tags and consumers name"
        verb = "would go" if self.metrics["dry_run"] else "went"
        return f"{len(self.snapshots)} snapshots and {self.metrics['files']} files {verb}"


@dataclass(frozen=True, slots=True, repr=False)
class OrphansResult(Result):
    """Files that nothing refers to."""

    files: tuple[FileInfo, ...]
    bytes: int
    removed: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the files with size and time, and their sum."""
        return {"files": self.rows(), "bytes": self.bytes, "removed": self.removed}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per file."""
        return [{"path": f.path, "bytes": f.size, "modified_ms": f.mtime_ms} for f in self.files]

    def note(self) -> str:
        """Return the number of files, and whether they were deleted."""
        if not self.files:
            return "no orphans"
        verb = "deleted" if self.removed else "found (nothing deleted; --yes deletes)"
        return f"{len(self.files)} orphans, {self.bytes} bytes, {verb}"


@dataclass(frozen=True, slots=True, repr=False)
class TagResult(Result):
    """A tag that was made or deleted."""

    tag: str
    snapshot: int | None = None
    dry_run: bool = False
    deleted: tuple[DeletedFile, ...] | None = None
    notes: tuple[str, ...] = ()
    loses: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the snapshot of a new tag, or the files a deleted one released."""
        if self.deleted is None:
            return {"tag": self.tag, "snapshot": self.snapshot}
        out = {"tag": self.tag, "dry_run": self.dry_run, "files": len(self.deleted), "notes": list(self.notes)}
        out["loses"] = list(self.loses)
        return {**out, "list": _file_list(self.deleted)} if self.dry_run else out


@dataclass(frozen=True, slots=True, repr=False)
class RollbackResult(Result):
    """Result of a rollback, or with dry_run its plan; `files` that go, with their `bytes`.

    seconds   of a dry run those of all that the run reads, beside which it makes a request for each file or each 1,000
    memory    bytes that the process had at most until it was done
    """

    snapshot: int
    dry_run: bool
    snapshots_gone: list[int]
    tags_gone: list[str]
    restored: bool
    files: int
    notes: list[str] = field(default_factory=list)
    loses: list[str] = field(default_factory=list)
    keep_history: bool = False
    bytes: int = 0
    seconds: float = 0
    memory: int = 0

    @classmethod
    def of(
        cls, report: RollbackReport, loses: Sequence[str] = (), *, keep_history: bool = False, seconds: float = 0
    ) -> Self:
        """Make a result from the report of the stage."""
        return cls(
            report.snapshot_id, report.dry_run, list(report.snapshots), list(report.tags), report.restored,
            len(report.files), list(report.notes), list(loses), keep_history, sum(f.size for f in report.files),
            round(seconds, 6), peak_bytes(),
        )  # fmt: skip

    def note(self) -> str:
        """Return what is the newest state now."""
        if self.keep_history:
            said = (
                "would follow, with the older state; no other goes"
                if self.dry_run
                else "has the older state; none goes"
            )
            return f"{'a snapshot after ' if self.dry_run else 'snapshot '}{self.snapshot} {said}"
        if not self.snapshots_gone and not self.restored:
            return f"snapshot {self.snapshot} is the newest already"
        verb = "would be" if self.dry_run else "is"
        return f"snapshot {self.snapshot} {verb} the newest; {len(self.snapshots_gone)} later ones go"


@dataclass(frozen=True, slots=True, repr=False)
class HeldBatch(Result):
    """A batch that stopped before its commit; `facts`: why, its rows, where they came from and what they would do."""

    facts: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the facts."""
        return dict(self.facts)


@dataclass(frozen=True, slots=True, repr=False)
class DiscardResult(Result):
    """A held batch that was discarded, or with dry_run would be; `rows`: that were staged."""

    batch: str
    rows: int = 0
    dry_run: bool = False

    def note(self) -> str:
        """Return what becomes of the batch."""
        verb = "would be" if self.dry_run else "is"
        return f"batch {self.batch} {verb} discarded: none of its rows is in the table, and whoever runs it again finds it done"


@dataclass(frozen=True, slots=True, repr=False)
class DropResult(Result):
    """A table that was dropped, or with dry_run would be.

    rows    stored versions in the newest snapshot
    loses   tags, branches, streams and held batches, which go with it
    """

    dropped: str
    rows: int
    files: int
    bytes: int
    loses: tuple[str, ...] = ()
    dry_run: bool = False

    def note(self) -> str:
        """Return what goes."""
        return f"{self.dropped} {'would be' if self.dry_run else 'is'} dropped for good"


@dataclass(frozen=True, slots=True, repr=False)
class ConsumerResult(Result):
    """A consumer that was deleted, or with dry_run would be; `next_snapshot`: that its stream would have read."""

    deleted: str
    next_snapshot: int
    dry_run: bool = False

    def note(self) -> str:
        """Return what its stream loses."""
        return (
            f"a stream with id {self.deleted} begins without a position, and expiry "
            f"{'would no longer keep' if self.dry_run else 'no longer keeps'} snapshots from {self.next_snapshot} on for it"
        )


def _offenders(rule: RuleResult) -> str:
    return "; ".join(", ".join(f"{k} {v}" for k, v in offender.items()) for offender in rule.sample[:5])


@dataclass(frozen=True, slots=True, repr=False)
class VerifyResult(Result):
    """The verdict on a table: one result per rule."""

    table: str
    results: tuple[RuleResult, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """True when no rule found anything."""
        return all(r.passed for r in self.results)

    def fails(self, on: str = "error") -> bool:
        """Return True when a rule of this severity, or a worse one, found something.

        on   ``error``: answers are wrong, or will be; ``warning``: also what only deserves a look
        """
        return any(on == "warning" or r.severity == "error" for r in self.findings)

    @property
    def findings(self) -> tuple[RuleResult, ...]:
        """The rules that found something."""
        return tuple(r for r in self.results if not r.passed)

    def as_dict(self) -> dict[str, Any]:
        """Return verdict and rules as JSON values."""
        return {"table": self.table, "passed": self.passed, "rules": [r.to_json() for r in self.results]}

    def note(self) -> str:
        """Return the verdict in one line."""
        found = self.findings
        if not found:
            return f"{self.table}: all {len(self.results)} rules hold"
        named = ", ".join(r.name if r.severity == "error" else f"{r.name} (warning)" for r in found)
        return f"{self.table}: {len(found)} of {len(self.results)} rules found something: {named}"

    def __str__(self) -> str:
        lines = [self.note()]
        for rule in self.results:
            metrics = ", ".join(f"{k} {v:g}" for k, v in rule.metrics.items())
            lines.append(f"  {'ok  ' if rule.passed else rule.severity.value.upper()[:4]} {rule.name}: {metrics}")
            lines += [f"         {dict(offender)}" for offender in (() if rule.passed else rule.sample[:5])]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"VerifyResult({self.note()})"

    def _repr_html_(self) -> str:
        rules = [
            {
                "rule": r.name,
                "verdict": "holds" if r.passed else r.severity.value,
                "what holds, or was found": r.description if r.passed else _offenders(r) or r.description,
            }
            for r in self.results
        ]
        return f"<p>{html.escape(self.note())}</p>{Listing(rules)._repr_html_()}"
