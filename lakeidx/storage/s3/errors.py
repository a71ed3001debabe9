"""What an S3 request's failure means."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError

_REFUSED_BEFORE_SENDING = ("EndpointConnectionError", "ConnectTimeoutError", "ClientConnectorError")
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "TokenRetrievalError")
_BAD_REQUEST = ("ParamValidationError", "InvalidEndpointConfigurationError", "InvalidRegionError", "NoRegionError")


class Transient(Exception):
    """A failure that may pass; `sent` is False when the request surely never reached the store."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Exists(Exception):
    """The precondition of a conditional put failed."""


class Busy(Exception):
    """Another conditional put of the same object is under way (409); this one surely did nothing."""


@functools.cache
def client_errors() -> tuple[type[Exception], ...]:
    """List what a request may raise; everything else is a bug."""
    from http.client import HTTPException

    from aiohttp import ClientError as HttpClientError
    from botocore.exceptions import BotoCoreError, ClientError
    from fsspec.exceptions import FSTimeoutError

    return (OSError, ClientError, BotoCoreError, FSTimeoutError, HttpClientError, HTTPException)


def status_of(e: BaseException) -> tuple[int | None, str]:
    """Return the HTTP status and S3 error code of an exception, as far as it has them."""
    seen: BaseException | None = e
    while seen is not None:
        response = getattr(seen, "response", None)  # botocore's ClientError
        if isinstance(response, Mapping):
            error = response.get("Error", {})
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            code = str(error.get("Code", ""))
            return (int(code) if status is None and code.isdigit() else status), code
        seen = seen.__cause__
    return None, ""


def translate(e: Exception, path: str) -> LakeIdxError | Transient | Exists | Busy:
    """Convert the failure to one of lakeidx's errors, or to a reason to try again or to answer False."""
    status, code = status_of(e)
    text = str(e) or type(e).__name__
    kind = type(e).__name__  # botocore's classes, told by name so that nothing is imported for it
    if isinstance(e, FileExistsError) or status == 412 or code == "PreconditionFailed":
        return Exists(text)
    if status == 409 or code in ("ConditionalRequestConflict", "OperationAborted"):
        return Busy(text)
    if isinstance(e, FileNotFoundError) or status == 404:
        return NotFoundError("no such file" if code != "NoSuchBucket" else "no such bucket", path=path)
    if isinstance(e, PermissionError) or kind in _NO_CREDENTIALS or status in (401, 403):
        return InvalidInputError(f"access denied: {text}", path=path)
    if kind in _BAD_REQUEST:
        return InvalidInputError(f"the request is not valid: {text}", path=path)
    if status is not None and status < 500 and status not in (408, 429) and code not in ("SlowDown", "RequestTimeout"):
        return InvalidInputError(f"the store refused the request: {text}", path=path)
    refused = kind in _REFUSED_BEFORE_SENDING or isinstance(e, ConnectionRefusedError)
    return Transient(text, sent=not refused)
