"""Result of a verb about a branch."""

from __future__ import annotations

from dataclasses import dataclass

from lakeidx.results import Result


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
