"""Takes the repairs of faults between programs out, one by one, and says which test finds it: ``python -m tests.kit.taken_out``.

The faults of the review are in ``tests/property/test_histories_find_faults.py``, where histories find them; these were found by
thinking, or by programs that take turns, and each has its test in ``tests/regress`` (docs/decisions/0010). A name, or a part of
one, after the command runs those alone. It is in no lane: each repair takes a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakeidx.batch.artifacts import BatchFiles, CommitReport, IndexWriteReport
from lakeidx.batch.stages import commit, rerun
from lakeidx.errors import CommitConflictError, NotFoundError
from lakeidx.maintenance import alter, compaction
from lakeidx.table.commit import chain, commit_changes, earlier_commit
from lakeidx.table.expiration import expire, rollback, tags
from lakeidx.table.metadata import TableMetadata

REGRESS = Path(__file__).parents[1] / "regress"


@dataclass(frozen=True)
class Repair:
    """What holds again when it is in; how it is taken out; the module of tests that must fail then."""

    name: str
    take_out: Callable[[pytest.MonkeyPatch], None]
    test: str


def _set(place: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(place, name, value)


def _next_one_tells(metadata: TableMetadata, snapshot: Any, data: Any, index: Any) -> bool:
    """Look at the snapshot after it alone."""
    try:
        return not chain._follows(metadata, metadata.load_snapshot(snapshot.id + 1), snapshot, data, index)
    except NotFoundError:
        return False


def _two_snapshots_are_a_history(patch: pytest.MonkeyPatch) -> None:
    for module in (chain, commit_changes, earlier_commit):
        patch.setattr(module, "was_bypassed", _next_one_tells)


def _own_snapshots_are_evidence(patch: pytest.MonkeyPatch) -> None:
    read = earlier_commit._are_read
    patch.setattr(
        earlier_commit, "_are_read", lambda m, changes, added, user, since: read(m, changes, added, "", since)
    )


def _missing_files_have_expired(patch: pytest.MonkeyPatch) -> None:
    read = earlier_commit._are_read
    patch.setattr(
        earlier_commit, "_are_read", lambda m, changes, added, user, since: read(m, changes, added, user, None)
    )


def _another_process_has_no_report(patch: pytest.MonkeyPatch) -> None:
    """Have the stage commit look for a report before it begins alone."""
    read = BatchFiles.read

    def reading(self: Any, kind: Any, **which: Any) -> Any:
        late = kind is CommitReport and sys._getframe(1).f_code.co_name == "_commit_or_replan"
        return None if late else read(self, kind, **which)

    patch.setattr(BatchFiles, "read", reading)
    patch.setattr(commit, "_committed_attempt", lambda context, attempt, first_base, lost: attempt)


def _nobody_else_runs_it(patch: pytest.MonkeyPatch) -> None:
    """Either of the two would do."""
    _another_process_has_no_report(patch)
    patch.setattr(commit_changes._Attempt, "_maybe_tried", property(lambda self: self.request))


def _last_attempt_is_whole(patch: pytest.MonkeyPatch) -> None:
    read = BatchFiles.read

    def reading(self: Any, kind: Any, **which: Any) -> Any:
        found = read(self, kind, **which)
        return object() if found is None and kind is IndexWriteReport and which.get("attempt", 1) > 1 else found

    patch.setattr(BatchFiles, "read", reading)


def _what_it_follows_never_expires(patch: pytest.MonkeyPatch) -> None:
    run = commit_changes._Attempt._try_once

    def once(self: Any, latest: Any) -> Any:
        try:
            return run(self, latest)
        except NotFoundError:
            newer = self.metadata.latest_snapshot()
            self.follows = None if newer is None else newer.identity
            raise

    patch.setattr(commit_changes._Attempt, "_try_once", once)


def _expiry_goes_on_over_a_rollback(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rollback, "_check_stays", lambda metadata, target, *, tagged: None)
    patch.setattr(expire, "is_there", lambda metadata, snapshot: True)


def _ids_are_enough_for_tags(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tags, "is_there", lambda metadata, snapshot: metadata.has_snapshot(snapshot.id))


def _any_gap_is_one(patch: pytest.MonkeyPatch) -> None:
    def drop(metadata: TableMetadata) -> None:
        metadata.store.delete_many([metadata.paths.snapshot_path(i) for i in metadata.stray_snapshot_ids()])

    patch.setattr(chain, "_check_gap", lambda metadata, snapshot: None)
    patch.setattr(rollback, "_drop_strays", drop)


def _a_new_table_is_the_old_one(patch: pytest.MonkeyPatch) -> None:
    """Delete no snapshot that was put into the table that took the place of the commit's own."""
    schema = TableMetadata.latest_schema

    def latest(self: TableMetadata) -> Any:
        caller = sys._getframe(1).f_code.co_name
        return None if caller == "_is_on_the_chain" else schema(self)

    patch.setattr(TableMetadata, "latest_schema", latest)


def _files_of_one_time_are_alike(patch: pytest.MonkeyPatch) -> None:
    list_schemas = TableMetadata._list_schemas
    patch.setattr(
        TableMetadata, "_list_schemas", lambda self: {i: f._replace(etag="") for i, f in list_schemas(self).items()}
    )


HISTORIES = "test_histories"
MISLED = "test_a_snapshot_on_an_expired_id_misled_others_that_run_the_batch"
HISTORY = "test_a_snapshot_on_an_expired_id_counted_as_history"

SAME_TIME = "test_a_table_created_at_the_time_of_the_one_before_was_taken_for_it"

REPAIRS = [
    Repair("a commit looks whether the history goes on from its snapshot",
           _set(commit_changes, "_is_on_the_chain", lambda metadata, made: True), HISTORIES),
    Repair("a batch that comes again does too", _set(earlier_commit, "_is_stray", lambda *_: False), HISTORIES),
    Repair("a report is not believed to be rolled back for a stray", _set(rerun, "is_stray", lambda *_: False), HISTORIES),
    Repair("what a branch brings back counts again", _set(rerun, "_brought_back", lambda *_: None),
           HISTORIES),
    Repair("what a branch may have brought back is refused", _set(rerun, "_refuse_unknown", lambda *_: None),
           HISTORIES),
    Repair("a snapshot of the batch itself is no evidence", _own_snapshots_are_evidence, MISLED),
    Repair("two strays, one after the other, are no history", _two_snapshots_are_a_history, HISTORY),
    Repair("what stands before a gap is no history",
           _set(TableMetadata, "split_snapshot_ids", lambda self: ([], self.listed_snapshot_ids())), HISTORY),
    Repair("what is named by an id must be of the history",
           _set(TableMetadata, "past_snapshot", TableMetadata.load_snapshot), HISTORY),
    Repair("an expiry takes strays away", _set(expire, "drop_strays", lambda *_, **__: []), HISTORY),
    Repair("no gap while a branch is put in the place of snapshots", _any_gap_is_one, HISTORY),
    Repair("an expiry spares what a rollback brings back", _set(expire, "_may_go", lambda *_: True), HISTORIES),
    Repair("a rollback and an expiry know of one another", _expiry_goes_on_over_a_rollback, HISTORIES),
    Repair("what a tag keeps proves a commit", _set(earlier_commit, "names_that_are_read", lambda *_, **__: set()),
           HISTORIES),
    Repair("a batch that two processes run is looked for once more, and its report", _nobody_else_runs_it, HISTORIES),
    Repair("a batch that another process planned again has its report", _another_process_has_no_report, HISTORIES),
    Repair("a commit goes on where one died planning again", _last_attempt_is_whole,
           HISTORIES),
    Repair("a commit goes on when what it was to follow expires", _what_it_follows_never_expires,
           "test_expiry_during_a_batch"),
    Repair("a batch that was rolled back between two stages is not done", _set(commit, "_check_run", lambda *_: None),
           HISTORIES),
    Repair("an alteration looks once more", _set(alter, "_examine_again", lambda *_: None),
           "test_a_batch_that_came_in_during_an_alteration_lost_its_rows"),
    Repair("files that another cleaner removed are no proof of a commit", _missing_files_have_expired,
           "test_files_that_another_cleaner_removed_were_committed"),
    Repair("a late commit leaves a new table alone", _a_new_table_is_the_old_one,
           "test_a_late_commit_broke_the_table_that_took_the_place_of_its_own"),
    Repair("a rollback looks for tags at its end", _set(rollback, "_drop_late_tags", lambda *_: []), HISTORIES),
    Repair("a snapshot whose files have expired goes, though the history has its changes",
           _set(commit_changes, "discard_unreadable", lambda *_: False), HISTORIES),
    Repair("a table is told by what its first schema file holds", _files_of_one_time_are_alike, SAME_TIME),
    Repair("a tag compares the snapshot it names", _ids_are_enough_for_tags, HISTORIES),
    Repair("a compaction that adds no file is planned again",
           _set(compaction, "may_plan_again", lambda error, changes: isinstance(error, CommitConflictError)), HISTORIES),
]  # fmt: skip


def _run(repair: Repair) -> int:
    """Run a repair's tests without it, in this process."""
    patch = pytest.MonkeyPatch()
    repair.take_out(patch)
    return pytest.main(["-q", "-x", "-n", "0", "--tb=no", "-p", "no:cacheprovider", str(REGRESS / f"{repair.test}.py")])


def main(arguments: list[str]) -> int:
    """Print a line per repair; 1 when one is missed by nobody."""
    if arguments[:1] == ["--one"]:
        return _run(next(r for r in REPAIRS if r.name == arguments[1]))
    missed = 0
    for repair in [r for r in REPAIRS if not arguments or arguments[0] in r.name]:
        command = [sys.executable, "-m", "tests.kit.taken_out", "--one", repair.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = [line.split("::")[-1] for line in done.stdout.splitlines() if line.startswith("FAILED")]
        missed += not found
        print(f"{repair.name}: {f'found by {repair.test}::{found[0]}' if found else 'NOT FOUND ' + done.stdout[-300:]}",
              flush=True)  # fmt: skip
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
