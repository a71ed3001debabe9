"""Files of a batch by stage: typed reports, and the files they name.

A batch lives in ``<warehouse>/_lakeidx/<db>/<table>/<batch id>/``, one on a branch in ``…/<table>/_branch-<name>/<batch id>/``: an
id counts once on each branch. A stage writes its files into a directory of its own with a random name and closes with
``<stage>.json``, put if absent: of two runs of one stage one wins, and everybody continues with the winner's report. Files of a run
that lost, or died, are never named by a report and are cleaned with the batch.
"""

from __future__ import annotations

import copy
import logging
import os
import re
from functools import cache
from itertools import count
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lakeidx.codec.containers.checksum import seal, unseal
from lakeidx.errors import CommitUnknownError, CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.format.paths import MAIN_BRANCH, TablePaths, split_table_uri
from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.logs import logged

log = logging.getLogger(__name__)

STAGING_DIR = "_lakeidx"
#: Names of what a job sends to the asset that has submitted it.
REPORT_MESSAGE, ERROR_MESSAGE = "lakeidx_report", "lakeidx_error"
WRITING_FOLDER = "_writing"
_COMMITTING = "committing"
HELD_NAME, _DECISION = "held.json", "decision.json"
#: Mode of a batch that replaces nothing; the others are the overwrite modes of `lakeidx.batch.context`.
UPSERT = "upsert"
_BATCH_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._=@+-]{0,149}$")


class Report(BaseModel):
    """Base of all reports: strict, frozen, closed against unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceFile(Report):
    """A landing file as it was when it was ingested.

    version    time of the last change
    etag       an object store's mark of its content; None on disks, and in reports of older releases
    checksum   SHA-256 of its bytes, where it was cheap to have
    """

    path: str
    size: int
    version: str
    etag: str | None = None
    checksum: str | None = None

    def is_version_of(self, other: SourceFile) -> bool:
        """Return True when both are one file that was not written in between."""
        if None not in (self.etag, other.etag) and self.etag != other.etag:
            # Written twice within the second that the store's times have.
            return False
        return (self.path, self.size, self.version) == (other.path, other.size, other.version)


class StagedPart(Report):
    """Rows in batch order: part i comes before part i+1.

    path          Parquet file: staged by ingest, or the landing file itself (`by_reference`)
    row_groups    row groups of the file that make up the part; None = all
    has_kinds     the part has a column ``_VALUE_KIND``
    checksum      SHA-256 of the staged file; only of rows that came from memory
    """

    path: str
    rows: int
    bytes: int
    source: int
    by_reference: bool = False
    row_groups: tuple[int, ...] | None = None
    has_kinds: bool = False
    checksum: str | None = None


class IngestReport(Report):
    """Outcome of `ingest`.

    table_id   that of the table the rows are for; schema_digest: of the schema's file ("" in reports of older releases)
    content    of rows that come without an order or parts of their own: see `lakeidx.batch.parts`
    skipped    messages of change capture tools that are no rows (tombstones, ddl), by what they are
    newest_change_ms   newest time at which the source committed a row, epoch ms
    digests    of a batch that ended long ago, in the place of its parts and of many sources: see `lakeidx.batch.stages.rerun`
    rows_ignored   rows that `on_delete` leaves out
    completed_on   snapshot that rows were completed or made from, 0 for a table without one; None when none was
    operation      see `lakeidx.batch.context.BatchContext`
    notes          what was guessed about landing files
    """

    stage: Literal["ingest"] = "ingest"
    batch_id: str
    schema_id: int
    sources: tuple[SourceFile, ...]
    parts: tuple[StagedPart, ...]
    rows_in: int
    rows_rejected: int
    rejected_path: str | None
    reject_reasons: dict[str, int]
    table_id: str = ""
    content: str | None = None
    skipped: dict[str, int] = Field(default_factory=dict)
    newest_change_ms: int | None = None
    digests: dict[str, str] = Field(default_factory=dict)
    schema_digest: str = ""
    rows_ignored: int = 0
    completed_on: int | None = None
    operation: str | None = None
    notes: tuple[str, ...] = ()
    seconds: float

    def source_of(self, part: StagedPart) -> SourceFile | None:
        """Return the landing file that a part is taken from by reference; None for a part with a file of its own."""
        return self.sources[part.source] if part.by_reference else None

    @property
    def rows_staged(self) -> int:
        """Rows that continue to the next stage."""
        return self.rows_in - self.rows_rejected - self.rows_ignored


class Target(Report):
    """One (partition, bucket) that gets rows.

    partition        the manifest's partition bytes as hex
    index_file       the bucket's HASH index file that assignment has seen, None when it has none; index_rows: hashes in it
    index_path       its whole path, when it is not in the table
    new_hashes       hashes that the bucket gets and did not have; None: index_write has to look
    """

    partition: str
    bucket: int
    rows: int
    first_sequence: int
    index_file: str | None = None
    index_path: str | None = None
    index_rows: int | None = None
    new_hashes: int | None = None


class BucketAssignmentReport(Report):
    """Outcome of `bucket_assignment`.

    targets_paths    the targets of each staged part's rows: `lakeidx.batch.target_files`
    placing_tasks    of each part, the tasks that placed its rows, each with a file of its own
    in_tasks         the runner's tasks placed the rows; False: one task in the process that planned the batch did
    stretches        in reports of older releases; not used
    assigned_on      partition hex -> bucket -> HASH index file the buckets were assigned on; None when no index is kept
    index_type       how rows found their buckets
    moves_path       directory of the files that say which rows move their key from another partition, are dropped, or take
                     the partition of their key (`lakeidx.batch.moved_rows`); None when none does
    upserts          rows of fixed buckets that are no deletes: nobody looks whether their keys are known
    moved, dropped   deletes that moves add; rows left out; global_index: keys were looked for in all partitions
    by_partition     a key's bucket depends on all buckets of its partition (taken for true of reports of older releases)
    located_paths    what an index that keeps something outside the table had answered, one file per part
    overwrite        the batch's mode: ``upsert``, or what it replaces (``partitions``, ``table``); "" in older reports
    """

    stage: Literal["bucket_assignment"] = "bucket_assignment"
    batch_id: str
    attempt: int
    base_snapshot_id: int | None
    targets: tuple[Target, ...]
    targets_paths: tuple[str, ...]
    placing_tasks: tuple[tuple[int, ...], ...] = ()
    in_tasks: bool = False
    stretches: Any = Field(default=(), exclude=True)
    assigned_on: dict[str, dict[int, str]] | None
    rows: int
    inserts: int
    updates: int
    deletes: int
    upserts: int = 0
    new_buckets: int
    index_type: str
    index_metrics: dict[str, float] = Field(default_factory=dict)
    moves_path: str | None = None
    moved: int = 0
    dropped: int = 0
    global_index: bool = False
    by_partition: bool = True
    located_paths: tuple[str, ...] = ()
    overwrite: str = ""
    seconds: float

    @property
    def placed_by(self) -> tuple[tuple[int, ...], ...]:
        """`placing_tasks`; InvalidInputError in a report of an older release, whose files are others."""
        if len(self.placing_tasks) != len(self.targets_paths):
            raise InvalidInputError(
                f"batch {self.batch_id!r} was assigned by another release of lakeidx: run it again under a new batch id"
            )
        return self.placing_tasks


class IndexWriteReport(Report):
    """Outcome of `index_write`; `changes_path` is the file of the entries to commit."""

    stage: Literal["index_write"] = "index_write"
    batch_id: str
    attempt: int
    changes_path: str
    rows_in: int
    rows_written: int
    data_files: int
    data_bytes: int
    index_files: int
    index_bytes: int
    buckets: int
    seconds: float


class CommitReport(Report):
    """Outcome of `commit`.

    already       an earlier run had committed the batch: nothing was put now
    replans       how often the batch was planned again after a conflict; `attempt` is the one that was committed
    commit_user   the name its snapshots carry ("" in reports of older releases)
    discarded     the batch was held, and somebody has decided that its rows do not come into the table
    """

    stage: Literal["commit"] = "commit"
    batch_id: str
    attempt: int
    snapshot_ids: tuple[int, ...]
    already: bool
    replans: int
    seconds: float
    commit_user: str = ""
    discarded: bool = False


class SupersededRun(Report):
    """A note that a run of a batch does not count any more; `commit`: its report; `branch`: one that may bring its rows back."""

    kind: Literal["superseded"] = "superseded"
    batch_id: str
    run: int
    reason: str
    commit: CommitReport | None = None
    branch: str | None = None


class CommitNote(Report):
    """A note that an attempt is about to be committed: from then on it may be in the table."""

    kind: Literal["committing"] = "committing"
    batch_id: str
    attempt: int


class HeldNote(Report):
    """A note that a batch stops before its commit until somebody decides: `lakeidx.batch.held`.

    since_ms   epoch ms
    reasons    what is beyond which limit, or which check failed
    overwrite, replaces   see `lakeidx.batch.context.BatchContext`; the latter as a condition
    newest, newest_id     the table's newest snapshot then: its identity and its id
    figures    what the batch does, as it was measured
    """

    kind: Literal["held"] = "held"
    batch_id: str
    attempt: int
    since_ms: int
    reasons: tuple[str, ...]
    overwrite: str | None = None
    replaces: str | None = None
    newest: str = ""
    newest_id: int = 0
    figures: dict[str, int] = Field(default_factory=dict)


class Decision(Report):
    """A note of what was decided about a held batch; the first one counts."""

    kind: Literal["decision"] = "decision"
    batch_id: str
    decision: Literal["release", "discard"]


AnyReport = TypeVar("AnyReport", IngestReport, BucketAssignmentReport, IndexWriteReport, CommitReport)
AnyNote = TypeVar("AnyNote", bound=Report)


class BatchFiles:
    """The staging directory of one batch.

    store   where it is staged: the table's, or one in memory (`lakeidx.batch.stages.memory_staging`)

    A batch whose rows are not in the table any more (`lakeidx.batch.stages.rerun`) is run again under its id:
    ``superseded-<n>.json`` says that run n does not count, and run n + 1 has a directory of its own, ``run-<n + 1>``.
    """

    def __init__(self, store: ObjectStore, paths: TablePaths, batch_id: str) -> None:
        check_batch_id(batch_id)
        self.store = store
        self.table = paths.root
        self.batch_id = batch_id
        self.directory = f"{staging_root(paths)}/{batch_id}"
        self._run: int | None = None
        # A report that was published stays as it is while its batch runs.
        self._published: dict[str, Report] = {}

    @property
    def run(self) -> int:
        """Which run of the batch counts, from 1."""
        if self._run is None:
            self._run = next(n for n in count(1) if not self.store.exists(self._superseded(n)))
        return self._run

    @property
    def root(self) -> str:
        """Directory of the run's reports and files."""
        return self.directory if self.run == 1 else f"{self.directory}/run-{self.run}"

    def is_current(self) -> bool:
        """Return True unless another program has started the batch again."""
        return not self.store.exists(self._superseded(self.run))

    def supersede(self, reason: str, *, branch: str | None = None) -> None:
        """Mark the present run as superseded: its rows are not in the table; `branch`: one that may bring them back."""
        made = self.read(CommitReport)
        note = SupersededRun(batch_id=self.batch_id, run=self.run, reason=reason, commit=made, branch=branch)
        self.store.put_if_absent(self._superseded(self.run), seal(note.model_dump_json(indent=1).encode()))
        self._run = None

    def superseded_runs(self) -> list[SupersededRun]:
        """Return the notes about the runs before the present one."""
        return [n for run in range(1, self.run) if (n := self._load(SupersededRun, self._superseded(run))) is not None]

    def resume(self, run: int) -> bool:
        """Make an earlier run, whose rows are in the table again, the current one; False when its reports are deleted."""
        earlier = copy.copy(self)
        earlier._run = run
        if earlier.read(CommitReport) is None:
            return False
        self.supersede(f"the rows of run {run} are in the table again")
        self.store.delete(self._superseded(run))
        return True

    def begin_commit(self, attempt: int) -> bool:
        """Record that an attempt is about to be committed; False when it was recorded before: it may be in the table."""
        path = f"{self.root}/{_COMMITTING}{'' if attempt == 1 else f'-{attempt}'}.json"
        note = CommitNote(batch_id=self.batch_id, attempt=attempt)
        return self.store.put_if_absent(path, seal(note.model_dump_json().encode()))

    def was_committing(self, attempt: int) -> bool:
        """Return True when an attempt may have been committed."""
        return self.store.exists(f"{self.root}/{_COMMITTING}{'' if attempt == 1 else f'-{attempt}'}.json")

    def held(self) -> HeldNote | None:
        """Return the note that says why the run is held; None when it is not."""
        return self._load(HeldNote, f"{self.root}/{HELD_NAME}")

    def hold(self, note: HeldNote) -> None:
        """Hold the run until somebody decides."""
        self.store.put_if_absent(f"{self.root}/{HELD_NAME}", seal(note.model_dump_json(indent=1).encode()))

    def decided(self) -> str | None:
        """Return what was decided about the held run, ``release`` or ``discard``; None for nothing yet."""
        found = self._load(Decision, f"{self.root}/{_DECISION}")
        return None if found is None else found.decision

    def decide(self, decision: Literal["release", "discard"]) -> str:
        """Decide about the held run; return the decision that counts, which may be an earlier one."""
        note = Decision(batch_id=self.batch_id, decision=decision)
        self.store.put_if_absent(f"{self.root}/{_DECISION}", seal(note.model_dump_json().encode()))
        return self.decided() or decision

    def new_dir(self, stage: str) -> str:
        """Make a directory that no other run writes to, for the files of one run of a stage."""
        return f"{self.root}/{stage}/{os.urandom(16).hex()}"

    def read(self, model: type[AnyReport], *, attempt: int = 1) -> AnyReport | None:
        """Read the report of a finished stage, None when it has not finished."""
        path = self._report_path(model, attempt)
        found = self._published.get(path)
        if not isinstance(found, model):
            found = self._load(model, path)
            if found is not None:
                self._published[path] = found
        return found

    def close(self, report: AnyReport, *, attempt: int = 1) -> AnyReport:
        """Publish a report; return the one that counts, which is another run's when that was faster."""
        path = self._report_path(type(report), attempt)
        try:
            if self.store.put_if_absent(path, seal(report.model_dump_json(indent=1).encode())):
                self._published[path] = report
                self._log_end(report)
                return report
        except CommitUnknownError:
            # The store did not say who put the report: the one that is there counts, whoever did.
            if not self.store.exists(path):
                raise
        return self.read(type(report), attempt=attempt) or report

    def _log_end(self, report: Report) -> None:
        seconds, ids = getattr(report, "seconds", None), getattr(report, "snapshot_ids", ())
        if seconds is not None:
            with logged(**({"snapshot": max(ids)} if ids else {})):
                log.info("%s: %s of batch %s took %.2f s", self.table, stage_name(type(report)), self.batch_id, seconds)

    def replace(self, report: AnyReport) -> None:
        """Replace a report of a finished batch by a shorter one."""
        text = report.model_dump_json(exclude_defaults=True)
        stage = f'{{"stage":"{stage_name(type(report))}",'
        self._published.clear()
        self.store.put(self._report_path(type(report), 1), seal((stage + text[1:]).encode()))

    def closed_ms(self, model: type[BaseModel], *, attempt: int = 1) -> int:
        """Return when a report was published, epoch ms by the store's clock; 0 when it was not."""
        return 0 if (found := self.store.info(self._report_path(model, attempt))) is None else found.mtime_ms

    def require(self, model: type[AnyReport], *, attempt: int = 1) -> AnyReport:
        """Read the report of an earlier stage; InvalidInputError names the stage that has to run first."""
        report = self.read(model, attempt=attempt)
        if report is None:
            said = f"stage {stage_name(model)} of batch {self.batch_id!r} has not run: run it first"
            raise InvalidInputError(said, path=self.root)
        return report

    def latest_attempt(self) -> int:
        """Find the number of the newest bucket assignment that finished; 1 when none has."""
        return next(n for n in count(1) if not self.store.exists(self._report_path(BucketAssignmentReport, n + 1)))

    def _load(self, model: type[AnyNote], path: str) -> AnyNote | None:
        try:
            return model.model_validate_json(unseal(self.store.get(path), path))
        except NotFoundError:
            return None
        except ValidationError as error:
            raise CorruptFileError(f"the stage report cannot be read: {error.errors()[0]['msg']}", path=path) from error

    def _superseded(self, run: int) -> str:
        return f"{self.directory}/superseded-{run}.json"

    def _report_path(self, model: type[BaseModel], attempt: int) -> str:
        suffix = "" if attempt == 1 else f"-{attempt}"
        return f"{self.root}/{stage_name(model)}{suffix}.json"


@cache
def stage_name(model: type[BaseModel]) -> str:
    """Return the name of the stage that leaves a report."""
    return str(model.model_fields["stage"].default)


def staging_root(paths: TablePaths) -> str:
    """Return the directory where a branch's batches are staged: beside the databases, so that no engine lists it as table data."""
    location = split_table_uri(paths.root)
    middle = location.database if location.database is not None else "default"
    table = f"{location.warehouse.rstrip('/')}/{STAGING_DIR}/{middle}/{location.table}"
    # The last part of its directory, branch-<name>, was checked to be a name.
    return table if paths.branch == MAIN_BRANCH else f"{table}/_{paths.branch_root.rpartition('/')[2]}"


def writing_note(paths: TablePaths, batch_id: str) -> str:
    """Return the path of the note that a batch staged in memory is writing files: `lakeidx.batch.stages.memory_staging`."""
    return f"{staging_root(paths)}/{WRITING_FOLDER}/{batch_id}"


def is_batch_id(name: str) -> bool:
    """Return True for a name that a batch may have; other folders of the staging directory begin with ``_``."""
    return isinstance(name, str) and _BATCH_ID.match(name) is not None


def check_batch_id(batch_id: str) -> None:
    """Raise InvalidInputError for an id that cannot be a directory name everywhere."""
    if not is_batch_id(batch_id):
        allowed = "1 to 150 letters, digits and . _ = @ + - , beginning with a letter or digit"
        raise InvalidInputError(f"batch id {batch_id!r}: use {allowed}")
