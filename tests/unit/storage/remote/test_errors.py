from __future__ import annotations

from typing import Any

import pytest

from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.storage.remote.store import Busy, Exists, OutOfRange, Transient, as_storage_error


def answer(status: int, code: str = "", method: str = "GET") -> str:
    """The text of obstore for an answer of a store."""
    return (
        f"Generic S3 error: Error performing {method} https://host/c/k?sv=1&sig=the-secret in 1ms - Server returned non-2xx status "
        f"code: {status} Some Words: <?xml version='1.0'?>\n<Error><Code>{code}</Code><Message>as told</Message></Error>\n\n"
        "Debug source:\nGeneric { uri: Some(https://host/c/k?sv=1&sig=the-secret) }"
    )


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (FileNotFoundError(answer(404, "NoSuchKey")), NotFoundError, "no such file"),
        (Exception(answer(404, "NoSuchBucket")), NotFoundError, "there is no such bucket"),
        (FileNotFoundError(answer(404, "ContainerNotFound")), NotFoundError, "there is no such bucket"),
        (Exception(answer(403, "RequestTimeTooSkewed")), InvalidInputError, "set the clock"),
        (Exception(answer(403, "ExpiredToken")), InvalidInputError, "credentials have expired"),
        (Exception(answer(400, "ExpiredToken")), InvalidInputError, "credentials have expired"),
        (Exception(answer(400, "AuthorizationHeaderMalformed")), InvalidInputError, "set storage option region or AWS_REGION"),
        (Exception("Received redirect without LOCATION, this normally indicates an incorrectly configured region"),
         InvalidInputError, "set storage option region or AWS_REGION"),
        (Exception(answer(403, "AccessDenied")), InvalidInputError, "access denied"),
        (Exception(answer(400, "InvalidArgument")), InvalidInputError, "the store refused the request"),
        (Exception("Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error: error sending request"),
         InvalidInputError, "no credentials: set those of the storage options or of the environment"),
        (ValueError('Could not parse path: Path "a//b" contained empty path segment'), InvalidInputError, "not a usable path"),
        (Exception(answer(412, "PreconditionFailed", "PUT")), Exists, ""),
        (Exception(answer(409, "BlobAlreadyExists", "PUT")), Exists, ""),
        (Exception(answer(409, "ConditionalRequestConflict", "PUT")), Busy, ""),
        (Exception(answer(416, "InvalidRange")), OutOfRange, ""),
        *((Exception(answer(status)), Transient, "") for status in (408, 429, 500, 502, 503, 504)),
        (Exception(answer(400, "RequestTimeout")), Transient, ""), (Exception("request or response body error"), Transient, ""),
    ],
)  # fmt: skip
def test_what_a_failure_means(error: Exception, kind: type[Any], says: str) -> None:
    found = as_storage_error(error, "s3://b/k")
    assert type(found) is kind
    assert says in str(found)
    assert "the-secret" not in str(found)
    if isinstance(found, LakeIdxError):
        assert found.path == "s3://b/k"
        assert "\n" not in str(found)


def test_a_request_that_was_not_sent() -> None:
    found = as_storage_error(
        Exception("error sending request\n\nDebug source:\nHttpError {\n    kind: Connect,\n}"), "s3://b/k"
    )
    assert isinstance(found, Transient)
    assert not found.sent
    sent = as_storage_error(
        Exception("error sending request\n\nDebug source:\nHttpError {\n    kind: Timeout,\n}"), "s3://b/k"
    )
    assert isinstance(sent, Transient)
    assert sent.sent
