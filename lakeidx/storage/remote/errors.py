"""Errors of object stores: a failed request becomes one of lakeidx's errors, or a reason to try again.

obstore has an exception for what most callers ask for; the HTTP status and the store's own code stand in its text only.
"""

from __future__ import annotations

import re

from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError

_STATUS = re.compile(r"status code: (\d{3})")
#: As S3, Google and Azure write it in the body of an answer.
_CODE = re.compile(r"<Code>([^<]+)</Code>|<Message>([^<]+)</Message>")
#: Signed queries (SAS tokens) are secrets.
_QUERY = re.compile(r"(\w+://[^\s?]+)\?[^\s)]*")
#: Nothing was sent: there was no connection.
_UNSENT = re.compile(r"kind: Connect\b")
#: Where programs in a cloud ask for credentials when nothing else gives them any.
_METADATA = re.compile(
    r"169\.254\.169\.254|/latest/api/token|metadata(?:\.google\.internal)?/computeMetadata|metadata/identity"
)
_TRY_AGAIN = (408, 429)
_TIMES = ("RequestTimeTooSkewed", "RequestExpired")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist.")


class Transient(Exception):
    """A failure that may pass; `sent` is False when the request surely never reached the store."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class Exists(Exception):
    """The object of a conditional put was there already."""


class Busy(Exception):
    """Another request for the same object is under way (409); this one surely did nothing."""


class OutOfRange(Exception):
    """A range begins behind the end of the object."""


def as_storage_error(e: Exception, path: str) -> LakeIdxError | Transient | Exists | Busy | OutOfRange:
    """Convert the failure to one of lakeidx's errors, or to a reason to try again or to answer otherwise."""
    whole = str(e)
    text = _QUERY.sub(r"\1", whole.partition("\n\nDebug source")[0])
    found = _STATUS.search(whole)
    status = int(found[1]) if found else 0
    codes = [code or message for code, message in _CODE.findall(whole)]
    if isinstance(e, FileNotFoundError) or status == 404 or "(code: NoSuchKey)" in text:
        missing = any(code in _NO_BUCKET for code in codes)
        return NotFoundError(
            "there is no such bucket: make it, or mend the URI" if missing else "no such file", path=path
        )
    if status == 412 or "BlobAlreadyExists" in codes:
        return Exists(text)
    if status == 409:
        return Busy(text)
    if status == 416 or "Wanted range starting at" in text:
        return OutOfRange(text)
    refusal = _refusal(e, text, status, codes)
    if refusal is not None:
        return InvalidInputError(refusal, path=path)
    return Transient(text, sent=_UNSENT.search(whole) is None)


def _refusal(e: Exception, text: str, status: int, codes: list[str]) -> str | None:
    """Say why the request can never work, and what to set; None when it may."""
    if _METADATA.search(text):
        return (
            "no credentials: set those of the storage options or of the environment, or run where a role gives some; "
            f"asked last was {text}"
        )
    if any(code in _TIMES for code in codes):
        return f"the clock of this machine is wrong, and the store refuses what it signs: set the clock ({text})"
    if any(code in _EXPIRED for code in codes):
        return f"the credentials have expired: give new ones, or a role or profile that renews them ({text})"
    if "incorrectly configured region" in text or "AuthorizationHeaderMalformed" in codes or status in (301, 307):
        return f"the bucket is in another region: set storage option region or AWS_REGION to it ({text})"
    if (
        status in (401, 403)
        or "(code: AccessDenied)" in text
        or type(e).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
    ):
        return f"access denied: {text}"
    if isinstance(e, ValueError) and not status:
        return f"not a usable path or option: {text}"
    if 300 <= status < 500 and status not in _TRY_AGAIN and not {"SlowDown", "RequestTimeout"} & {*codes}:
        return f"the store refused the request: {text}"
    return None
