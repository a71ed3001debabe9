"""Branches, tags and rollback; what a verb needs is imported when it is called."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.options import arguments
from lakeidx.options.descriptors import parse_duration_ms
from lakeidx.results import Listing, Result
from lakeidx.table.handle import TableHandle
from lakeidx.table.history import snapshot_at
from lakeidx.table.times import epoch_ms
from lakeidx.tasks.logs import logged

if TYPE_CHECKING:
    from lakeidx.api.reports import RollbackResult, TagResult
    from lakeidx.maintenance.branches.create import BranchResult
    from lakeidx.table.times import Moment

log = logging.getLogger("lakeidx.api.maintenance")

M = TypeVar("M", bound="History")
P = ParamSpec("P")
R = TypeVar("R")
Report = TypeVar("Report", bound=Result)


class History:
    """The verbs of a table's history, which `lakeidx.api.maintenance.Maintenance` has, too."""

    def __init__(self, table: TableHandle) -> None:
        self.table = table

    def create_branch(self, name: str, *, tag: str | None = None, snapshot: int | None = None) -> BranchResult:
        """Create a branch at a tag or a snapshot; without either an empty one, with the newest schema, as Java does.

        snapshot   is tagged ``branch_NAME`` first, which goes with the branch: Java's expiry respects tags, not branches
        """
        from lakeidx.maintenance.branches.create import create_branch

        made = create_branch(
            self.table.metadata, arguments.as_text(name, name="the name of a branch"), tag=tag,
            snapshot_id=_snapshot_id(snapshot),
        )  # fmt: skip
        return self._logged(made)

    def branches(self) -> Listing:
        """Return the branches: name, newest snapshot, when it was made (UTC), rows, the snapshot it begins with, tags."""
        from lakeidx.maintenance.branches.create import list_branches

        return Listing(list_branches(self.table.metadata))

    def delete_branch(self, name: str, *, dry_run: bool = False) -> BranchResult:
        """Delete a branch with its snapshots, tags, consumers and staged batches; `orphans` removes files that only it had."""
        from lakeidx.maintenance.branches.create import delete_branch

        return self._logged(delete_branch(self.table.metadata, name, dry_run=dry_run))

    def fast_forward(self, name: str, *, dry_run: bool = False) -> BranchResult:
        """Bring what was committed to a branch since it was created into ``main``; no writer of ``main`` may be at work.

        errors   CommitConflictError when ``main`` has commits that the branch lacks: nothing is overwritten
        """
        from lakeidx.maintenance.branches.create import fast_forward

        return self._logged(fast_forward(self.table.metadata, name, dry_run=dry_run))

    def create_tag(
        self,
        name: str,
        *,
        snapshot: int | None = None,
        timestamp: Moment | None = None,
        retain: str | None = None,
        replace: bool = False,
    ) -> TagResult:
        """Name a snapshot, by default the newest, so that it stays.

        replace  let a tag of that name name this snapshot from now on
        timestamp   the oldest snapshot at or after this time, as in Paimon
        retain   delete the tag after this time (``30 d``); None = never
        """
        if timestamp is not None:
            if snapshot is not None:
                raise InvalidInputError("give a snapshot or a timestamp to tag, not both")
            later = (s.id for s in self.table.metadata.snapshots() if s.time_millis >= epoch_ms(timestamp))
            if (snapshot := next(later, None)) is None:
                raise InvalidInputError(f"the table has no snapshot at or after {timestamp}", path=self.table.uri)
        from lakeidx.api.reports import TagResult
        from lakeidx.table.expiration.tags import create_tag

        kept = None if retain is None else milliseconds(retain)
        tag = create_tag(
            self.table.metadata,
            arguments.as_text(name, name="the name of a tag"),
            snapshot_id=_snapshot_id(snapshot),
            retained_ms=kept,
            replace=replace,
        )
        return self._logged(TagResult(tag=name, snapshot=tag.snapshot.id))

    def rename_tag(self, name: str, to: str) -> TagResult:
        """Give a tag another name; NotFoundError, InvalidInputError when that is taken."""
        from lakeidx.api.reports import TagResult
        from lakeidx.table.expiration.tags import rename_tag

        tag = rename_tag(self.table.metadata, name, arguments.as_text(to, name="the name of a tag"))
        return self._logged(TagResult(tag=to, snapshot=tag.snapshot.id))

    def delete_tag(self, name: str, *, dry_run: bool = False) -> TagResult:
        """Delete a tag, and the files that only it kept."""
        from lakeidx.api.reports import TagResult
        from lakeidx.maintenance.branches.losses import lost_by_tag
        from lakeidx.table.expiration.tags import delete_tag

        loses = lost_by_tag(self.table.metadata, name)
        report = delete_tag(self.table.metadata, self.table.schema, name, dry_run=dry_run)
        return self._logged(
            TagResult(
                tag=name, dry_run=dry_run, deleted=report.files, notes=tuple(str(n) for n in report.notes), loses=loses
            )
        )

    def tags(self) -> Listing:
        """Return the tags: name, snapshot, rows."""
        from lakeidx.table.expiration.read import read_tags

        return Listing(
            [
                {"tag": n, "snapshot": t.snapshot.id, "rows": t.snapshot.total_record_count}
                for n, t in read_tags(self.table.metadata).items()
            ]
        )

    def rollback(
        self,
        to: int | str | None = None,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Moment | None = None,
        watermark: int | None = None,
        keep_history: bool = False,
        dry_run: bool = False,
    ) -> RollbackResult:
        """Make an older state the newest again; no writer may be at work in the meantime.

        to   a snapshot's number, or the name of a tag; or give `snapshot` or `tag`, which say which of the two it is
        timestamp   the newest snapshot at or before it
        watermark   the newest snapshot whose watermark (epoch ms) is at or before it
        keep_history   commit the older state as a new snapshot: no snapshot, tag or batch goes, and batches keep their ids
        """
        from lakeidx.api.reports import RollbackResult
        from lakeidx.maintenance.branches.losses import lost_by_rollback
        from lakeidx.maintenance.rollback import roll_back_table

        begun = time.monotonic()
        if sum(v is not None for v in (to, snapshot, tag, timestamp, watermark)) > 1:
            raise InvalidInputError("name one state to roll back to")
        if timestamp is not None:
            snapshot = snapshot_at(self.table.metadata, epoch_ms(timestamp)).id
        if watermark is not None:
            known = [s for s in self.table.metadata.snapshots() if s.watermark is not None and s.watermark <= watermark]
            if not known:
                raise NotFoundError(f"no snapshot has a watermark at or before {watermark}", path=self.table.uri)
            snapshot = known[-1].id
        if to is not None:
            number = not isinstance(to, str) or to.isdecimal()
            snapshot, tag = (int(to), None) if number else (None, str(to))
        metadata, schema, target = self.table.metadata, self.table.schema, _snapshot_id(snapshot)
        if keep_history:
            from lakeidx.maintenance.rollback import roll_back_as_latest

            made = roll_back_as_latest(metadata, schema, snapshot_id=target, tag=tag, dry_run=dry_run)
            return self._logged(RollbackResult.of(made, keep_history=True, seconds=time.monotonic() - begun))
        plan = roll_back_table(metadata, schema, snapshot_id=target, tag=tag, dry_run=True)
        loses = lost_by_rollback(metadata, plan.snapshot_id)
        report = plan if dry_run else roll_back_table(metadata, schema, snapshot_id=target, tag=tag)
        return self._logged(RollbackResult.of(report, loses, seconds=time.monotonic() - begun))

    def _logged(self, result: Report) -> Report:
        with logged(table=self.table.uri):
            log.info("%s: %r", self.table.uri, result)
        return result


def _snapshot_id(value: int | None) -> int | None:
    return None if value is None else arguments.whole_number(value, name="snapshot")


def milliseconds(text: str) -> int:
    """Parse a duration like ``12 h`` into milliseconds; InvalidInputError otherwise."""
    try:
        return parse_duration_ms(arguments.as_text(text, name="a length of time"))
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is not a duration; write e.g. '12 h' or '7 d'") from error


def of_table(verb: Callable[Concatenate[M, P], R]) -> Callable[Concatenate[TableHandle, P], R]:
    """Return a verb of `Maintenance` as a method of the table itself, which logs the requests that it made to an object store."""

    def method(table: TableHandle, /, *args: P.args, **named: P.kwargs) -> R:
        store = table.metadata.store
        # A disk counts none.
        before = getattr(store, "requests", 0)
        try:
            upkeep: Any = table
            return verb(upkeep.maintenance, *args, **named)
        finally:
            if made := getattr(store, "requests", 0) - before:
                log.info("%s: %s made %d requests to the store", table.uri, verb.__name__, made)

    update_wrapper(method, verb)
    return method


class HistoryMethods:
    """The verbs of a table's history as methods of `lakeidx.Table`."""

    create_branch = of_table(History.create_branch)
    branches = of_table(History.branches)
    delete_branch = of_table(History.delete_branch)
    fast_forward = of_table(History.fast_forward)
    create_tag = of_table(History.create_tag)
    rename_tag = of_table(History.rename_tag)
    delete_tag = of_table(History.delete_tag)
    tags = of_table(History.tags)
    rollback = of_table(History.rollback)
