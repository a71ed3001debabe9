"""Dagster Pipes for jobs: what a job logs, its report and its failure reach the asset that has submitted it.

Pipes is opened only when Dagster has asked for it, by environment variable or argument, and only then is `dagster-pipes` needed,
which has no dependencies. The asset sends the pipeline with its request, so that no pipeline file has to be where the job runs.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from lakeidx.batch.artifacts import ERROR_MESSAGE, REPORT_MESSAGE
from lakeidx.errors import InvalidInputError, LakeIdxError, RejectedRowsError

_CONTEXT_VARIABLE = "DAGSTER_PIPES_CONTEXT"
CONTEXT_ARGUMENT, MESSAGES_ARGUMENT = "--dagster-pipes-context", "--dagster-pipes-messages"
#: Services set variables of a job in ways of their own, or not at all: an argument goes everywhere.
STORE_ARGUMENT, _STORE_VARIABLE = "--pipes-store", "LAKEIDX_PIPES_STORE"
_STORES = ("s3", "gcs", "dbfs", "volumes")


def pipes_asked() -> bool:
    """Return True when Dagster has started this process and listens."""
    return _CONTEXT_VARIABLE in os.environ or CONTEXT_ARGUMENT in sys.argv


class JobPipes:
    """The open end of a job; `extras` is what the asset has sent."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.extras: Mapping[str, Any] = context.extras or {}

    def report(self, report: Mapping[str, Any]) -> None:
        """Send the job's report."""
        self._context.report_custom_message({REPORT_MESSAGE: dict(report)})

    def fail(self, error: LakeIdxError) -> None:
        """Send the error that ended the job, so that the asset knows whether to try again."""
        self._context.log.error(f"{error.kind}: {error}")
        said: dict[str, Any] = {
            "kind": error.kind,
            "message": error.message,
            "path": error.path,
            "offset": error.offset,
        }
        if isinstance(error, RejectedRowsError):
            said["rejected"] = {name: getattr(error, name) for name in error.FIGURES}
        self._context.report_custom_message({ERROR_MESSAGE: {**said, "snapshot_id": error.snapshot_id}})


_open: list[JobPipes] = []


def sent(name: str) -> Any:
    """Return what the asset has sent under a name; None when it has not, or Pipes are not in use."""
    return _open[-1].extras.get(name) if _open else None


@contextmanager
def job_pipes() -> Iterator[JobPipes | None]:
    """Open Pipes if Dagster requests it, and forward lakeidx's log; None if not.

    errors   InvalidInputError without dagster-pipes
    """
    if not pipes_asked():
        yield None
        return
    try:
        import dagster_pipes as dp
    except ImportError:
        raise InvalidInputError(
            "Dagster Pipes is not installed: pip install 'lakeidx[pipes]' where the job runs"
        ) from None
    by_argument = CONTEXT_ARGUMENT in sys.argv
    make: Callable[[], Any] = dp.PipesCliArgsParamsLoader if by_argument else dp.PipesEnvVarParamsLoader
    params = make()
    loader, writer = transport(params.load_context_params(), params.load_messages_params())
    with dp.open_dagster_pipes(params_loader=params, context_loader=loader, message_writer=writer) as context:
        handler = _Forward(context.log)
        logger = logging.getLogger("lakeidx")
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        _open.append(JobPipes(context))
        try:
            yield _open[-1]
        finally:
            _open.pop()
            logger.setLevel(level)
            logger.removeHandler(handler)


def transport(context: Mapping[str, Any], messages: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what loads the request and what writes messages: by the store that --pipes-store or LAKEIDX_PIPES_STORE names (``s3``,
    ``gcs``; of Databricks ``dbfs``, ``volumes``), else S3 where Dagster's side reads a bucket, else Pipes' own, files and streams.

    errors   InvalidInputError for a store that is not known
    """
    import dagster_pipes as dp

    store = _requested_store() or ("s3" if "bucket" in messages or "bucket" in context else "")
    if store == "":
        return None, None
    if store == "dbfs":
        return dp.PipesDbfsContextLoader(), dp.PipesDbfsMessageWriter()
    if store == "volumes":
        return dp.PipesUnityCatalogVolumesContextLoader(), dp.PipesUnityCatalogVolumesMessageWriter()
    if store == "s3":
        # A client of boto3 is one of botocore, which is here already.
        client = import_module("botocore.session").get_session().create_client("s3")
        loader: Any = dp.PipesS3ContextLoader(client)
        writer: Any = dp.PipesS3MessageWriter(client)
    else:
        client = import_module("google.cloud.storage").Client()
        loader, writer = dp.PipesGCSContextLoader(client), dp.PipesGCSMessageWriter(client)
    return (loader if "bucket" in context else None), (writer if "bucket" in messages else None)


def _requested_store() -> str:
    """Return the store requested by argument or variable; empty when there is none."""
    name, store = _STORE_VARIABLE, os.environ.get(_STORE_VARIABLE, "")
    if STORE_ARGUMENT in sys.argv[:-1]:
        name, store = STORE_ARGUMENT, sys.argv[sys.argv.index(STORE_ARGUMENT) + 1]
    if store and store not in _STORES:
        raise InvalidInputError(f"{name}={store}: write s3, gcs, dbfs or volumes")
    return store


class _Forward(logging.Handler):
    """Forwards the records of lakeidx to Dagster's log."""

    def __init__(self, log: logging.Logger) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Hand one record on."""
        self._log.log(record.levelno, record.getMessage())
