"""Work that runs as jobs of its own, submitted to a cluster: what a job reports comes back through Dagster Pipes.

A stage of a batch that has finished gives its report again, so an asset submits the job and then runs the stage, which finds its
work done. A job that was killed, or took longer than it may, is submitted again by the step's retry, and resumes from the batch's
staging. Of other work, compaction for instance, the job's report is what the asset shows.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from lakeidx import errors
from lakeidx.batch.artifacts import ERROR_MESSAGE, REPORT_MESSAGE
from lakeidx.dagster import job_limit
from lakeidx.dagster.failures import JobEndedError
from lakeidx.errors import InvalidInputError, LakeIdxError

_JOBS = Path(__file__).parents[1] / "jobs"


def run_command(
    command: str,
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
    job: str,
    arguments: Sequence[str],
    extras: Mapping[str, Any],
    *,
    limit_seconds: float = 0,
) -> Sequence[Any]:
    """Run a job by a command that waits for it, spark-submit for instance; return what it has sent.

    The command and all that it starts end with the step, also when the run is cancelled.
    limit_seconds   how long it may take; 0 = for ever
    errors   the error that has ended the job; JobEndedError when it said none (killed), and at the limit
    """
    words = shlex.split(command)
    if not words:
        raise InvalidInputError("engine submit needs a command (LAKEIDX_SPARK_SUBMIT), e.g. spark-submit --master yarn")
    words = [sys.executable, job_limit.__file__, str(limit_seconds), *words, str(_JOBS / f"{job}.py")]
    injector, reader = dg.PipesEnvContextInjector(), dg.PipesTempFileMessageReader()
    with dg.open_pipes_session(context, injector, reader, extras=dict(extras)) as session:
        environment = {**os.environ, **session.get_bootstrap_env_vars()}
        process = subprocess.Popen([*words, *arguments], env=environment)  # noqa: S603 - what the deployment gives
        try:
            code = process.wait()
        except dg.DagsterExecutionInterruptedError:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=2 * job_limit.GRACE_SECONDS)
            raise
    # Beside logs, also of a job that has failed.
    sent = session.message_handler.get_custom_messages()
    if code:
        _raise_reported(sent)
        if limit_seconds and code == job_limit.TIMED_OUT:
            raise JobEndedError(
                f"the job {job} was stopped after {limit_seconds:g} s (submit_seconds, LAKEIDX_SUBMIT_SECONDS). "
                "A retry resumes from what is staged; raise the limit if a stage needs longer"
            )
        raise JobEndedError(f"the job {job} ended with exit code {code} and did not say why")
    return sent


def _raise_reported(messages: Sequence[Any]) -> None:
    """Raise the error that a job has sent, if any."""
    for message in messages:
        said = message.get(ERROR_MESSAGE) if isinstance(message, dict) else None
        if said is not None:
            kinds: list[type[LakeIdxError]] = [errors.BatchHeldError, *LakeIdxError.__subclasses__()]
            kind = next((k for k in kinds if k.kind == said["kind"]), errors.InternalError)
            rejected = said.get("rejected")
            details = {name: said[name] for name in ("path", "offset", "snapshot_id")}
            error = (errors.RejectedRowsError if rejected else kind)(said["message"], **details)
            for name, value in (rejected or {}).items():
                setattr(error, name, value)
            raise error


def report_of(messages: Sequence[Any]) -> dict[str, Any]:
    """Return the report that a job has sent; InternalError without one: the step would do the work again in its own process."""
    for message in messages:
        if isinstance(message, dict) and REPORT_MESSAGE in message:
            report: dict[str, Any] = message[REPORT_MESSAGE]
            return report
    raise errors.InternalError("the job has ended without a report: has it opened Dagster Pipes?")
