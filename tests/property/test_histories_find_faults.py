"""The machine of shared tables finds every fault of the review that is one of histories when its repair is taken out.

Each case is a history of the machine's steps, as short as it cuts one, so it does not change when seeds come to mean others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

import lakeidx.batch.artifacts as artifacts
import lakeidx.batch.schema_drift as schema_drift
import lakeidx.batch.stages.commit as commit_stage
import lakeidx.batch.stages.given_rows as ingest_stage
import lakeidx.batch.stages.rerun as rerun
import lakeidx.batch.upsert as batch_upsert
import lakeidx.table.commit.commit_changes as commit_changes
import lakeidx.table.commit.compaction_conflicts as compaction_conflicts
import lakeidx.table.commit.overwrite_upgrade as overwrite_upgrade
import lakeidx.table.expiration.rollback as rollback
import lakeidx.table.expiration.tags as tags
import lakeidx.table.intervals as intervals
from lakeidx.batch.artifacts import BatchFiles
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.stages.commit import run_commit
from lakeidx.batch.stages.index_write import run_index_write
from lakeidx.errors import CommitConflictError, InvalidInputError, NotFoundError
from lakeidx.format.manifest import FileKind
from lakeidx.format.snapshot import Snapshot
from lakeidx.format.tag import Tag, encode_tag
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.storage.decoded_files import DecodedFiles
from lakeidx.table.commit.conflicts import index_identity
from lakeidx.table.commit.manifest_write import combine_index
from lakeidx.table.metadata import TableMetadata
from tests.kit.shared_table.keys import FLOAT_KEYS
from tests.kit.shared_table.programs import Call, Step, records_of
from tests.kit.shared_table.runs import failure_of
from tests.kit.table_history import ENGINES

pytestmark = pytest.mark.slow

#: Calls of the store at which others are let in before a repair counts as one that nobody misses.
MOST_CALLS = 120


@dataclass(frozen=True)
class Case:
    """A fault, how its repair is taken out, and a history that shows it, as short as the machine cuts one.

    at   call of the store at which the last step meets the others; calls near it are tried when the product has changed
    """

    fault: str
    what: str
    take_out: Callable[[pytest.MonkeyPatch], None]
    engine: str
    steps: list[Step]
    at: int = 0

    def histories(self) -> Iterator[list[Step]]:
        """The history; with others inside its last step, at one call after another, the likely ones first."""
        *before, last = self.steps
        for at in sorted(range(MOST_CALLS), key=lambda n: abs(n - self.at)) if last.inside else [0]:
            yield [*before, replace(last, at=Call(skip=at))]


def step(name: str, /, *, inside: Sequence[Step] = (), **arguments: Any) -> Step:
    """A step, by a process of its own where it needs a handle and none is given."""
    own = {"handle": None} if name in _BY_HANDLE else {}
    return Step(name, own | arguments, tuple(inside))


_BY_HANDLE = {"upsert", "compact", "expire", "tag", "untag", "roll_back", "rejected"}


def upsert(batch: str, content: int, **more: Any) -> Step:
    """A whole batch."""
    return step("upsert", batch=batch, content=content, **more)


@functools.cache
def _content(number: int) -> list[tuple[int, int, str]]:
    return [(p, k, kind) for p, k, _, kind in records_of(number, ENGINES["deduplicate"])]


def content_with(wanted: Sequence[tuple[int, int, str]], *, only: bool = False) -> int:
    """Number of a batch that puts at least four of these rows and nothing else, or with `only` just these."""
    # Some thousands are looked at: all would be seconds of the processor at each import.
    puts = {r[:2] for r in wanted}
    for number in range(200_000):
        rows = _content(number)
        got = {(p, k) for p, k, _ in rows}
        plain = all(kind != "-D" for _, _, kind in rows)
        if plain and (got == puts if only else got <= puts and len(got) >= 3):
            return number
    raise AssertionError(f"no batch with {wanted}")


def _snapshots_by_id(patch: pytest.MonkeyPatch) -> None:
    """Keep decoded snapshots by id for ever."""
    read = TableMetadata._read_snapshot

    def cached(self: Any, snapshot_id: int) -> Any:
        known = self.__dict__.setdefault("_by_id", {})
        if snapshot_id not in known:
            known[snapshot_id] = read(self, snapshot_id)
        return known[snapshot_id]

    patch.setattr(TableMetadata, "_read_snapshot", cached)


def _lookups_by_id(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Snapshot, "__eq__", lambda one, other: isinstance(other, Snapshot) and one.id == other.id)


def _tables_without_identity(patch: pytest.MonkeyPatch) -> None:
    check = TableMetadata._check_schemas

    def believing(self: Any, listed: Any) -> None:
        known, self._table_id = self._table_id, None
        check(self, listed)
        self._table_id = known or self._table_id

    patch.setattr(TableMetadata, "_check_schemas", believing)
    # The digest of the schema that rows were staged under knows another table, too.
    patch.setattr(schema_drift, "lost_schema", lambda *_: "")


def _file_names_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compaction_conflicts, "vector_conflicts", lambda live, delta, read: [])
    patch.setattr(commit_changes, "index_file_conflicts", lambda live, changes: [])

    def ignoring(old: Any, changes: Any, mode: Any) -> Any:
        live = {index_identity(e) for e in old}
        return combine_index(
            old, [e for e in changes if e.kind is not FileKind.DELETE or index_identity(e) in live], mode
        )

    patch.setattr(commit_changes, "combine_index", ignoring)


def _reports_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rerun, "why_superseded", lambda metadata, files, ingest: None)


def _one_staging(patch: pytest.MonkeyPatch) -> None:
    """Stage the batches of a branch with those of the table itself."""
    root = artifacts.staging_root
    patch.setattr(artifacts, "staging_root", lambda paths: root(replace(paths, branch="main")))


def _any_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ingest_stage, "check_rows", lambda done, checksums, rows: None)


def _never_already(patch: pytest.MonkeyPatch) -> None:
    def run(*arguments: Any, **more: Any) -> Any:
        return run_commit(*arguments, **more).model_copy(update={"already": False})

    patch.setattr(batch_upsert, "run_commit", run)


def _rollback_without_branches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rollback, "names_in_branches", lambda metadata: set())


def _overwrites_at_level_0(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(overwrite_upgrade, "upgrade_overwrite", lambda entries, schema: tuple(entries))


def _missing_files_are_a_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit_stage, "_check_files", lambda context, attempt, changes: None)
    patch.setattr(BatchFiles, "begin_commit", lambda self, attempt: False)


def _files_unseen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit_stage, "_check_files", lambda context, attempt, changes: None)


def _python_floats(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(intervals, "_float_order", lambda value: value)


def _all_rejected_is_fine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RejectLimit, "exceeded", lambda self, rejected, rows: "")


def _bucket_numbers_are_planned_again(patch: pytest.MonkeyPatch) -> None:
    check = commit_changes._Attempt._check

    def conflict(self: Any, *planned: Any) -> None:
        try:
            check(self, *planned)
        except InvalidInputError as error:
            raise CommitConflictError(error.message, path=error.path) from error

    patch.setattr(commit_changes._Attempt, "_check", conflict)


def _tags_look_at_the_snapshot_only(patch: pytest.MonkeyPatch) -> None:
    def put(metadata: TableMetadata, name: str, snapshot: Any, retained_ms: int | None) -> Any:
        tag = Tag(snapshot=snapshot, create_time_ns=None, time_retained_ns=None)
        path = metadata.paths.tag_path(name)
        if not metadata.store.put_if_absent(path, encode_tag(tag)):
            return None
        if not metadata.has_snapshot(snapshot.id):
            metadata.store.delete(path)
            raise NotFoundError("expired while it was tagged", path=path)
        return tag

    patch.setattr(tags, "put_tag", put)


def _expired_files_end_a_batch(patch: pytest.MonkeyPatch) -> None:
    def once(context: Any, attempt: int) -> int:
        run_bucket_assignment(context, attempt)
        run_index_write(context, attempt)
        return attempt

    patch.setattr(batch_upsert, "write_attempt", once)
    # As of an index that is larger than what a process keeps of it.
    patch.setattr(DecodedFiles, "keep", lambda files, path, file: None)


def _after_a_rollback(checks: int) -> list[Step]:
    """A state that open handles have seen is rolled back, and its id used again; a branch keeps its files meanwhile."""
    branch = [step("tag", name="one", back=0), step("branch", name="x", pick=0)]
    later = [step("clock", seconds=0.0)] * checks
    return [*_batches(4), *branch, step("roll_back", back=1), upsert("again", 9), *later]


def _staged(*between: Step) -> list[Step]:
    """A batch that stops before its commit."""
    begin = [step("stage", slot=0, handle=0, batch="staged", content=21), step("advance", slot=0, stages=3)]
    return [upsert("first", 1), *begin, *between, step("advance", slot=0, stages=1)]


def _batches(count: int) -> list[Step]:
    return [upsert(f"b{i}", 30 + i) for i in range(count)]


_PUTS = [(1, k, "+I") for k in range(6)]
_EXPIRE = step("expire", retain=1)
CASES = [
    Case("H1", "snapshots are kept by id", _snapshots_by_id, "deduplicate", _after_a_rollback(1)),
    Case("H1", "lookups know a state by its id", _lookups_by_id, "deduplicate", _after_a_rollback(4)),
    Case("H1", "a table created again is taken for the old one", _tables_without_identity, "fixed-buckets",
         _staged(step("drop", handle=1))),
    Case("H2", "compactions compare file names only", _file_names_only, "deletion-vectors",
         [upsert("b0", content_with(_PUTS)), step("compact", full=True), step("delete_by_vector", pick=0),
          step("compact", full=True, inside=[step("delete_by_vector", pick=1)])], at=40),
    Case("H4", "reports of batches count for ever", _reports_for_ever, "deduplicate",
         [*_batches(2), step("roll_back", back=1), upsert("b1", 31)]),
    Case("H4", "other rows under a used batch id are taken for the same", _any_rows, "deduplicate",
         [upsert("b0", 1), upsert("b0", 2)]),
    Case("H4", "a batch that did nothing says it did", _never_already, "deduplicate", [upsert("b0", 1), upsert("b0", 1)]),
    Case("H4", "batches on a branch take staged rows of the table", _one_staging, "deduplicate",
         [*_batches(1), step("tag", name="one", back=0), step("branch", name="x", pick=0),
          step("write_on_branch", name="x", batch="b0", content=9)]),
    Case("H5", "a rollback does not look at branches", _rollback_without_branches, "deduplicate",
         [*_batches(2), step("tag", name="one", back=0), step("branch", name="x", pick=0), step("roll_back", back=1)]),
    Case("M6", "overwrites stay in level 0", _overwrites_at_level_0, "deletion-vectors", [upsert("b0", 1, overwrite="table")]),
    Case("M7", "a missing file proves a commit", _missing_files_are_a_commit, "deduplicate",
         _staged(*_batches(3), _EXPIRE, step("foreign_clean"))),
    Case("M7", "files of a batch that is committed late are not looked at", _files_unseen, "deduplicate",
         _staged(step("foreign_clean"))),
    Case("L1", "float keys compare as Python's floats", _python_floats, "float-keys",
         [upsert("b0", content_with([(1, 0, "+I"), (1, 1, "+I"), (1, 2, "+I")], only=True)), step("compact", full=True)]),
    Case("L2", "a batch may reject all its rows", _all_rejected_is_fine, "deduplicate",
         [upsert("b0", 1), step("rejected", batch="bad", rows=2, overwrite="table")]),
    Case("L3", "another bucket number is planned again", _bucket_numbers_are_planned_again, "fixed-buckets",
         [upsert("b0", content_with(_PUTS)), step("other_bucket_number", batch="refused", content=content_with(_PUTS))]),
    Case("L4", "a tag looks for its snapshot only", _tags_look_at_the_snapshot_only, "deduplicate",
         [*_batches(4), step("expire", retain=1, inside=[step("tag", name="one", back=3)])], at=40),
    Case("L9", "an expired file ends a batch", _expired_files_end_a_batch, "deduplicate",
         [*_batches(2), upsert("outer", 7, inside=[step("compact", full=True), upsert("other", 8), _EXPIRE])], at=40),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.fault}: {c.what}")
def test_a_history_finds_it(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ENGINES.get(case.engine, FLOAT_KEYS)
    for steps in case.histories():
        with monkeypatch.context() as patch:
            case.take_out(patch)
            error = failure_of(engine, steps)
        if error is not None:
            print(f"\n{case.fault} ({case.what}): {error}")
            assert failure_of(engine, steps) is None, "with its repair that history fails, too"
            return
    pytest.fail("no history misses the repair")
