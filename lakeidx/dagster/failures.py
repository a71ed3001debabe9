"""Reactions to errors of a run: try again, give up, or call someone. One table for steps, runs and the failed-run sensor.

Dagster has three ways to run something again, and they listen to different things:

* a step's `RetryPolicy` tries the step again in the same run; it obeys ``Failure(allow_retries=False)``;
* run retries (``run_retries`` in dagster.yaml, tag ``dagster/max_retries``) start a new run; they also catch a killed process;
* a human, from the UI. All of them are safe: a stage that has finished gives its report again, a batch is committed once.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakeidx.dagster.last_verdicts import leave_verdicts
from lakeidx.errors import LakeIdxError
from lakeidx.pipeline_file.model import PipelineConfig

ERROR_KIND = "lakeidx/error_kind"
WHAT_TO_DO = "lakeidx/what_to_do"
ALERT = "lakeidx/alert"
_NO_ERROR = "none"


@dataclass(frozen=True, slots=True)
class Reaction:
    """Reaction to a kind of error.

    retry     the same step may succeed when it is run again
    alert     a person must look, even if a retry helps
    advice    what that person should do
    """

    retry: bool
    alert: bool
    advice: str


REACTIONS: dict[str, Reaction] = {
    "invalid_input": Reaction(False, False, "Mend the landing file, pipeline file or option that is named, then run again."),
    "batch_held": Reaction(False, True, "The batch waits, staged: the job held_batch or `lakeidx batch` releases or discards it."),
    "not_found": Reaction(False, False, "Name a table, partition or file that exists; a landing file may have been moved away."),
    "corrupt_file": Reaction(False, True, "Bytes are damaged: restore the file that is named, then run the verification job."),
    "unsupported": Reaction(False, False, "The table uses a format version or feature this release lacks: upgrade lakeidx."),
    "commit_conflict": Reaction(True, False, "Other writers were faster again and again: retried. Has the table's pool one slot?"),
    "table_replaced": Reaction(True, False, "The table was created again while the step ran: retried on the new table."),
    "commit_unknown": Reaction(True, False, "The store did not confirm the snapshot: retried, after a look whether it exists."),
    "unavailable": Reaction(True, False, "The store or a service did not answer: retried with growing pauses. Look at the store."),
    "disk_full": Reaction(True, True, "A disk is full: free space, then run again; nothing was committed by halves."),
    "out_of_memory": Reaction(True, True, "Memory ran out: give the executors more, or make parts and buckets smaller."),
    "killed": Reaction(True, False, "The process died (killed, node lost): run again; finished stages are not repeated."),
    "not_started": Reaction(False, True, "No step could begin: mend project or environment as the error says, then run again."),
    "internal": Reaction(False, True, "A bug in lakeidx: report it with the run's log."),
    "unknown": Reaction(True, True, "Not an error of lakeidx (Spark, network, code): retried; read the stack trace."),
}  # fmt: skip


class JobEndedError(Exception):
    """A submitted job has ended without saying why: it was killed, or took longer than it may."""


def error_kind(error: BaseException) -> str:
    """Find the kind of an error, by its causes: a key of `REACTIONS`."""
    if isinstance(error, JobEndedError):
        return "killed"
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return "disk_full"
        # What Spark says of its own files, and of errors that were pickled as text.
        if not isinstance(seen, LakeIdxError) and "No space left on device" in str(seen):
            return "disk_full"
        if isinstance(seen, MemoryError) or "java.lang.OutOfMemoryError" in str(seen):
            return "out_of_memory"
        seen = seen.__cause__ or seen.__context__
    if isinstance(error, LakeIdxError):
        return error.kind
    return "unknown"


def retry_policy(config: PipelineConfig) -> dg.RetryPolicy:
    """Return the retry policy of the table's steps, with growing pauses."""
    retries = config.retries
    return dg.RetryPolicy(max_retries=retries.max_retries, delay=retries.delay_seconds, backoff=dg.Backoff.EXPONENTIAL)


@contextmanager
def failures_explained(context: dg.AssetExecutionContext | None = None) -> Iterator[None]:
    """Turn errors into Dagster failures that name their kind and what to do, and whether a retry makes sense.

    context   of a step after which its run may end: checks that the run does not reach stay as they were
    """
    try:
        yield
    except (dg.Failure, dg.RetryRequested):
        raise
    except Exception as error:
        if context is not None:
            leave_verdicts(context.instance, context.run)
        kind = error_kind(error)
        reaction = REACTIONS[kind]
        raise dg.Failure(
            description=f"{kind}: {error}", metadata=_metadata(error, kind, reaction), allow_retries=reaction.retry
        ) from error


def forget_failure(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Overwrite what a run says of the failed one that it repeats: Dagster copies that run's tags, and can remove none."""
    if "dagster/parent_run_id" in run.tags and run.tags.get(ERROR_KIND, _NO_ERROR) != _NO_ERROR:
        nothing = "Nothing: a run before this one failed."
        instance.add_run_tags(run.run_id, {ERROR_KIND: _NO_ERROR, ALERT: "no", WHAT_TO_DO: nothing})


def skip_or_raise(error: LakeIdxError, what: str) -> dg.SensorResult:
    """Skip a sensor's tick for a transient error (the next tick is the retry, the cursor stays); raise any other.

    A tick that fails shows in the UI; wrong credentials would look like "nothing to do" otherwise.
    """
    if not error.retryable:
        raise error
    return dg.SensorResult(skip_reason=f"{what}: {error}")


def _metadata(error: Exception, kind: str, reaction: Reaction) -> dict[str, Any]:
    out: dict[str, Any] = {ERROR_KIND: kind, WHAT_TO_DO: reaction.advice, ALERT: reaction.alert}
    if isinstance(error, LakeIdxError):
        if error.path is not None:
            out["lakeidx/file"] = error.path
        if error.offset is not None:
            out["lakeidx/offset"] = error.offset
        if error.snapshot_id is not None:
            out["lakeidx/snapshot_id"] = error.snapshot_id
    return out
