"""Partitions marked done: told to readers that wait for a partition to be complete.

=================  ========================================================================================================
action             does
=================  ========================================================================================================
``success-file``   writes ``_SUCCESS`` into the partition's directory, with the times of its first and its last mark
``http-report``    posts ``{table, path, partition, params}`` to option ``partition.mark-done-action.http.url``; the answer's
                   ``result`` has to be ``SUCCESS``
``mark-event``     a line of the log (Java tells its metastore, and refuses the action without one). Dagster's asset
                   ``snapshot_expiry`` names the partitions, whatever the action is
=================  ========================================================================================================

source   org.apache.paimon.partition.actions of release 1.4.2; ``done-partition`` and ``custom`` need Java's catalog
"""

from __future__ import annotations

import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakeidx.batch.artifacts import BucketAssignmentReport, staging_root
from lakeidx.errors import InvalidInputError, NotFoundError, UnavailableError, UnsupportedError
from lakeidx.format.snapshot import CommitKind
from lakeidx.maintenance.partition_argument import partition_name, texts_of_partition
from lakeidx.maintenance.partitions.drop import expire_partitions, partition_figures
from lakeidx.maintenance.partitions.times import TimeReader
from lakeidx.results import Result
from lakeidx.storage import join
from lakeidx.table.expiration.success_files import write_success_file
from lakeidx.table.handle import TableHandle
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import load_newest
from lakeidx.table.view import decode_partition_dict

log = logging.getLogger(__name__)
_ACTIONS = ("success-file", "http-report", "mark-event")
_MARKS = "partitions-done.json"
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True, repr=False)
class DoneResult(Result):
    """Partitions that were marked done, or with dry_run would be, as ``k=v,k=v``."""

    partitions: tuple[str, ...]
    actions: tuple[str, ...]
    dry_run: bool = False

    def note(self) -> str:
        """Return how many were marked."""
        if not self.partitions:
            return "no partition is to be marked done"
        return f"{len(self.partitions)} partitions {'would be' if self.dry_run else 'are'} marked done"


def mark_partitions_done(
    table: TableHandle,
    chosen: Collection[bytes] | None = None,
    *,
    now: datetime | None = None,
    dry_run: bool = False,
) -> DoneResult:
    """Mark partitions done by the actions of option ``partition.mark-done-action``.

    chosen   bytes of manifests; None = those that are idle: nothing was written for option ``partition.idle-time-to-done`` (and,
             where ``partition.time-interval`` says how much time a partition is of, since that is over), and they were not
             marked since
    now      local wall clock; default: this process's
    errors   UnsupportedError for an action that needs Java's catalog; UnavailableError when a report was not taken: partitions
             before it are marked
    """
    actions = _actions_of(table)
    before = _read_marks(table)
    marks = dict(before)
    due = _idle(table, now or datetime.now(), marks) if chosen is None else [*chosen]
    names = [partition_name(p, table.schema) for p in due]
    if not dry_run:
        if marks != before:
            _write_marks(table, marks)
        for partition, name in zip(due, names, strict=True):
            for action in actions:
                _mark(table, partition, action)
            marks[name] = time.time_ns() // 1_000_000
            _write_marks(table, marks)
    return DoneResult(tuple(names), actions, dry_run)


@dataclass(frozen=True, slots=True)
class PartitionUpkeep:
    """Partitions that expired, and that were marked done; notes: what the table's options ask for and lakeidx cannot do."""

    expired: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def run_partition_upkeep(table: TableHandle, *, dry_run: bool = False) -> PartitionUpkeep:
    """Expire partitions, and mark idle ones done, where the table's options say so.

    What only other programs can do by these options is noted and left to them: snapshots expire all the same.
    """
    options = table.schema.table_options
    expired: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    notes = []
    try:
        if options.partition_expiration_time is not None:
            expired = expire_partitions(table, dry_run=dry_run).partitions
    except (InvalidInputError, UnsupportedError) as error:
        notes.append(f"no partition expires: {error.message}")
    try:
        if options.partition_idle_time_to_done is not None and table.schema.partition_keys:
            done = mark_partitions_done(table, dry_run=dry_run).partitions
    except (InvalidInputError, UnsupportedError) as error:
        notes.append(f"no partition is marked done: {error.message}")
    for note in notes:
        log.warning("%s: %s", table.uri, note)
    return PartitionUpkeep(expired, done, tuple(notes))


def mark_batch_done(metadata: TableMetadata, assign: BucketAssignmentReport) -> None:
    """Mark the partitions that a batch has written done; one that it left empty is none.

    An action that only other programs can take is logged: the batch is committed.
    errors   UnavailableError when a report was not taken: the same batch again reports it again
    """
    table = TableHandle(metadata.store, metadata.paths, metadata)
    written = {bytes.fromhex(t.partition) for t in assign.targets}
    there = load_newest(metadata, partitions=written).entries.partition_counts()
    try:
        mark_partitions_done(table, sorted(there))
    except (InvalidInputError, UnsupportedError) as error:
        log.warning("%s: no partition is marked done: %s", table.uri, error.message)


def _actions_of(table: TableHandle) -> tuple[str, ...]:
    """Return the actions of a table's options.

    errors   UnsupportedError, InvalidInputError naming the option
    """
    options = table.schema.table_options
    actions = options.partition_mark_done_action or ("success-file",)
    for action in actions:
        if action in ("done-partition", "custom"):
            raise UnsupportedError(
                f"option 'partition.mark-done-action': {action} needs Java's catalog; lakeidx has {', '.join(_ACTIONS)}",
                path=table.uri,
            )
        if action not in _ACTIONS:
            raise InvalidInputError(
                f"option 'partition.mark-done-action': {action!r} is none of {', '.join(_ACTIONS)}", path=table.uri
            )
    if "http-report" in actions and not options.partition_mark_done_action_http_url:
        raise InvalidInputError(
            "option 'partition.mark-done-action': http-report needs 'partition.mark-done-action.http.url'",
            path=table.uri,
        )
    return actions


def _idle(table: TableHandle, now: datetime, marks: dict[str, int]) -> list[bytes]:
    """Return the partitions that are due; the mark of one that only compactions have written to moves to its newest file."""
    options = table.schema.table_options
    if options.partition_idle_time_to_done is None:
        raise InvalidInputError(
            "name the partitions to mark done, or set option 'partition.idle-time-to-done' for those that are idle",
            path=table.uri,
        )
    idle = timedelta(milliseconds=options.partition_idle_time_to_done)
    interval = timedelta(milliseconds=options.partition_time_interval or 0)
    reader = TimeReader(options.partition_timestamp_pattern, options.partition_timestamp_formatter)
    figures = partition_figures(table)
    again = [marks[f.name] for f in figures if f.name in marks and marks[f.name] < (f.written_ms or 0)]
    later = _rows_since(table.metadata, min(again)) if again else {}
    found = []
    for partition in figures:
        written = partition.written_ms or 0
        marked = marks.get(partition.name, -1)
        if 0 <= marked < written and later is not None and marked >= later.get(partition.partition, -1):
            marked = marks[partition.name] = written
        if marked >= written:
            continue
        quiet_since = datetime.fromtimestamp(written / 1000)
        if options.partition_time_interval is not None:
            begun = reader.read(texts_of_partition(partition.partition, table.schema, legacy=True))
            if begun is None:
                continue
            quiet_since = max(quiet_since, begun + interval)
        if quiet_since + idle <= now:
            found.append(partition.partition)
    return found


def _rows_since(metadata: TableMetadata, since_ms: int) -> dict[bytes, int] | None:
    """Return when each partition was written to since then, epoch ms, by others than compactions, which bring no row.

    None when it cannot be known: snapshots of that time have expired.
    """
    found: dict[bytes, int] = {}
    for snapshot in sorted(metadata.snapshots(), key=lambda s: -s.id):
        if snapshot.time_millis <= since_ms:
            return found
        if snapshot.commit_kind is not CommitKind.COMPACT:
            delta = metadata.load_manifest_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
            for partition in metadata.load_manifests(delta).partition_counts():
                found.setdefault(partition, snapshot.time_millis)
    return found if metadata.earliest_snapshot_id() == 1 else None


def _read_marks(table: TableHandle) -> dict[str, int]:
    """Return when each partition was marked last, epoch ms."""
    path = join(staging_root(table.paths), _MARKS)
    try:
        return dict(json.loads(table.store.get(path)))
    except NotFoundError:
        return {}


def _write_marks(table: TableHandle, marks: Mapping[str, int]) -> None:
    table.store.put(join(staging_root(table.paths), _MARKS), json.dumps(marks).encode())


def _mark(table: TableHandle, partition: bytes, action: str) -> None:
    path = table.paths.partition_dir(decode_partition_dict(partition, table.schema))
    directory = path[len(table.paths.root) + 1 :]
    if action == "success-file":
        write_success_file(table.store, join(path, "_SUCCESS"))
    elif action == "http-report":
        _report(table, directory + "/")
    else:
        log.info("%s: partition %s is done", table.uri, directory)


def _report(table: TableHandle, partition: str) -> None:
    options = table.schema.table_options
    url = str(options.partition_mark_done_action_http_url)
    content = {
        "table": ".".join(p.removesuffix(".db") for p in table.uri.rstrip("/").split("/")[-2:]),
        "path": table.uri,
        "partition": partition,
        "params": options.partition_mark_done_action_http_params,
    }
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked below
        url, json.dumps(content).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    if request.type not in ("http", "https"):
        raise InvalidInputError(f"option 'partition.mark-done-action.http.url': {url!r} is no http address")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
            result = json.loads(answer.read()).get("result")
    except (OSError, ValueError) as error:
        raise UnavailableError(f"partition {partition} was not reported to {url}: {error}", path=table.uri) from error
    if str(result).upper() != "SUCCESS":
        raise UnavailableError(f"partition {partition} was not taken by {url}: result {result!r}", path=table.uri)
