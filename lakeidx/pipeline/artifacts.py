"""What a batch leaves behind stage by stage: typed reports, and the files they name.

A batch lives in ``<warehouse>/_lakeidx/<db>/<table>/<batch id>/``. A stage writes its files into a directory of its own with a
random name and closes with ``<stage>.json``, put if absent: of two runs of one stage one wins, and everybody goes on with the
winner's report. Files of a run that lost, or died, are never named by a report and are cleaned with the batch.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.format.paths import TablePaths, split_table_uri
from lakeidx.storage.base import ObjectStore

STAGING_DIR = "_lakeidx"
_BATCH_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._=@+-]{0,149}$")


class Report(BaseModel):
    """Base of all reports: strict, frozen, closed against unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceFile(Report):
    """A landing file as it was when it was ingested; `version` is the store's mark of its content (mtime or etag)."""

    path: str
    size: int
    version: str


class StagedPart(Report):
    """Rows in batch order: part i comes before part i+1.

    path          Parquet file: staged by ingest, or the landing file itself (`by_reference`)
    row_groups    row groups of the file that make up the part; None = all
    has_kinds     the part has a column ``_VALUE_KIND``
    """

    path: str
    rows: int
    bytes: int
    source: int
    by_reference: bool = False
    row_groups: tuple[int, ...] | None = None
    has_kinds: bool = False


class IngestReport(Report):
    """Outcome of `ingest`."""

    stage: Literal["ingest"] = "ingest"
    batch_id: str
    schema_id: int
    sources: tuple[SourceFile, ...]
    parts: tuple[StagedPart, ...]
    rows_in: int
    rows_rejected: int
    rejected_path: str | None
    reject_reasons: dict[str, int]
    seconds: float

    @property
    def rows_staged(self) -> int:
        """Rows that go on to the next stage."""
        return self.rows_in - self.rows_rejected


class Target(Report):
    """One (partition, bucket) that gets rows; `partition` is the manifest's partition bytes as hex."""

    partition: str
    bucket: int
    rows: int
    first_sequence: int
    index_file: str | None = None


class AssignReport(Report):
    """Outcome of `bucket_assignment`.

    targets_paths    one Arrow file per staged part: column ``target`` (int32), one per row
    assigned_on      partition hex -> bucket -> HASH index file the buckets were assigned on; None when no index is kept
    index_type       how rows found their buckets
    moves_path       directory of the files that say which rows move their key from another partition, are dropped, or take
                     the partition of their key (`lakeidx.pipeline.moved_rows`); None when none does
    moved, dropped   deletes that moves add to the batch; rows that are left out
    global_index     keys were looked for in all partitions
    located_paths    what an index that keeps something outside the table had answered, one file per part
    """

    stage: Literal["bucket_assignment"] = "bucket_assignment"
    batch_id: str
    attempt: int
    base_snapshot_id: int | None
    targets: tuple[Target, ...]
    targets_paths: tuple[str, ...]
    assigned_on: dict[str, dict[int, str]] | None
    rows: int
    inserts: int
    updates: int
    deletes: int
    new_buckets: int
    index_type: str
    index_figures: dict[str, float] = {}
    moves_path: str | None = None
    moved: int = 0
    dropped: int = 0
    global_index: bool = False
    located_paths: tuple[str, ...] = ()
    seconds: float


class WriteReport(Report):
    """Outcome of `index_write`; `changes_path` holds the entries to commit."""

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
    """Outcome of `commit`."""

    stage: Literal["commit"] = "commit"
    batch_id: str
    attempt: int
    snapshot_ids: tuple[int, ...]
    already: bool
    replans: int
    seconds: float


AnyReport = TypeVar("AnyReport", IngestReport, AssignReport, WriteReport, CommitReport)


class BatchFiles:
    """The staging directory of one batch."""

    def __init__(self, store: ObjectStore, paths: TablePaths, batch_id: str) -> None:
        check_batch_id(batch_id)
        self.store = store
        self.batch_id = batch_id
        self.root = f"{staging_root(paths)}/{batch_id}"

    def new_dir(self, stage: str) -> str:
        """A directory nobody else writes to, for the files of one run of a stage."""
        return f"{self.root}/{stage}/{uuid.uuid4().hex}"

    def read(self, model: type[AnyReport], *, attempt: int = 1) -> AnyReport | None:
        """The report of a finished stage, None when it has not finished."""
        path = self._report_path(model, attempt)
        try:
            data = self.store.get(path)
        except NotFoundError:
            return None
        try:
            return model.model_validate_json(data)
        except ValidationError as error:
            raise CorruptFileError(f"the stage report cannot be read: {error.errors()[0]['msg']}", path=path) from error

    def close(self, report: AnyReport, *, attempt: int = 1) -> AnyReport:
        """Publish a report; gives the report that counts, which is another run's when that was faster."""
        path = self._report_path(type(report), attempt)
        if self.store.put_if_absent(path, report.model_dump_json(indent=1).encode()):
            return report
        winner = self.read(type(report), attempt=attempt)
        return report if winner is None else winner

    def closed_ms(self, model: type[BaseModel], *, attempt: int = 1) -> int:
        """When a report was published, epoch ms by the store's clock; 0 when it was not."""
        found = self.store.info(self._report_path(model, attempt))
        return 0 if found is None else found.mtime_ms

    def require(self, model: type[AnyReport], *, attempt: int = 1) -> AnyReport:
        """The report of an earlier stage; InvalidInputError says which stage has to run first."""
        report = self.read(model, attempt=attempt)
        if report is None:
            stage = _stage(model)
            raise InvalidInputError(
                f"stage {stage} of batch {self.batch_id!r} has not run: run it first", path=self.root
            )
        return report

    def latest_attempt(self) -> int:
        """Number of the newest bucket assignment that finished; 1 when none has."""
        attempt = 1
        while self.store.exists(self._report_path(AssignReport, attempt + 1)):
            attempt += 1
        return attempt

    def _report_path(self, model: type[BaseModel], attempt: int) -> str:
        suffix = "" if attempt == 1 else f"-{attempt}"
        return f"{self.root}/{_stage(model)}{suffix}.json"


def _stage(model: type[BaseModel]) -> str:
    return str(model.model_fields["stage"].default)


def staging_root(paths: TablePaths) -> str:
    """Where the batches of a table are staged: beside the databases, so that no engine lists it as table data."""
    location = split_table_uri(paths.root)
    middle = location.database if location.database is not None else "default"
    return f"{location.warehouse.rstrip('/')}/{STAGING_DIR}/{middle}/{location.table}"


def check_batch_id(batch_id: str) -> None:
    """InvalidInputError for an id that cannot be a directory name everywhere."""
    if not _BATCH_ID.match(batch_id):
        raise InvalidInputError(
            f"batch id {batch_id!r}: use 1 to 150 letters, digits and . _ = @ + - , beginning with a letter or digit"
        )


def batch_ids(store: ObjectStore, paths: TablePaths) -> Sequence[str]:
    """Ids of all batches that still have a staging directory."""
    return sorted(f.name for f in store.list(staging_root(paths)) if f.is_dir and _BATCH_ID.match(f.name))
