"""Stages that run as jobs of their own, submitted to a cluster: what the job reports comes back through Dagster Pipes.

A stage that has finished gives its report again, so an asset submits the job and then runs the stage, which finds its work done.
A job that was killed is submitted again by the step's retry, and goes on from the batch's staging.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterPipesExecutionError
from dagster._core.pipes.context import PipesMessageHandler

from lakeidx import errors
from lakeidx.errors import InvalidInputError, LakeIdxError
from lakeidx.jobs.pipes import ERROR, REPORT

_JOBS = Path(__file__).parents[1] / "lakeidx" / "jobs"


class _KeptMessages(dg.PipesTempFileMessageReader):
    """Reads messages from a file and keeps them, also when the job has failed."""

    handler: PipesMessageHandler | None = None

    @contextmanager
    def read_messages(self, handler: PipesMessageHandler) -> Iterator[dict[str, Any]]:
        """Read messages while the job runs."""
        self.handler = handler
        with super().read_messages(handler) as params:
            yield dict(params)

    @property
    def custom(self) -> Sequence[Any]:
        """What the job has sent besides logs."""
        return self.handler.get_custom_messages() if self.handler is not None else ()


def run_command(
    command: str, context: dg.AssetExecutionContext, job: str, arguments: Sequence[str], extras: Mapping[str, Any]
) -> Sequence[Any]:
    """Run a job by a command that waits for it, spark-submit for instance; return what it has sent.

    errors   the error that has ended the job; DagsterPipesExecutionError when it said none (killed)
    """
    words = shlex.split(command)
    if not words:
        raise InvalidInputError("engine submit needs a command (LAKEIDX_SPARK_SUBMIT), e.g. spark-submit --master yarn")
    reader = _KeptMessages()
    client = dg.PipesSubprocessClient(message_reader=reader)
    try:
        client.run(context=context, command=[*words, str(_JOBS / f"{job}.py"), *arguments], extras=dict(extras))
    except DagsterPipesExecutionError:
        _raise_reported(reader.custom)
        raise
    return reader.custom


def _raise_reported(messages: Sequence[Any]) -> None:
    """Raise the error that a job has sent, if any."""
    for message in messages:
        said = message.get(ERROR) if isinstance(message, dict) else None
        if said is not None:
            kinds: list[type[LakeIdxError]] = LakeIdxError.__subclasses__()
            kind = next((k for k in kinds if k.kind == said["kind"]), errors.InternalError)
            details = {name: said[name] for name in ("path", "offset", "snapshot_id")}
            raise kind(said["message"], **details)


def check_reported(messages: Sequence[Any]) -> None:
    """Raise InternalError when a job has sent no report: its stage would do the work again in the step's own process."""
    if not any(isinstance(m, dict) and REPORT in m for m in messages):
        raise errors.InternalError("the job has ended without a report: has it opened Dagster Pipes?")
