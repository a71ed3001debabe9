"""A queue that S3 sends its event notifications to: SQS, or a service that speaks its protocol.

A message that was received is hidden for the queue's visibility timeout and comes again unless it is deleted; one that came too
often goes to the dead-letter queue, when the queue has one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError, UnavailableError
from lakeidx.storage.remote.options import RemoteOptions, check_endpoint

#: Messages of one request.
_AT_ONCE = 10
#: A request that waits a little asks all servers of the queue, others some.
_WAIT_SECONDS = 1
#: A look at a queue has a limit: what did not answer is tried again by the next.
_MAX_ATTEMPTS, _TIMEOUT_SECONDS = 3, 10.0
_REGION = re.compile(r"(?:^|\.)sqs\.([a-z]{2,}(?:-[a-z]+)+-\d+)\.")
_LATER = ("Throttl", "OverLimit", "SlowDown", "RequestTimeout")
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "TokenRetrievalError")


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message as it was received; `receipt` deletes it."""

    id: str
    receipt: str
    body: str


class EventQueue:
    """A queue by its URL.

    url      its host is asked, unless AWS_ENDPOINT_URL_SQS names another
    options  credentials, region and limits of time as `lakeidx.storage.remote.options` has them; a region in the host counts more
    errors   of its methods: InvalidInputError where access is denied, NotFoundError, UnavailableError
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        self._url = url
        self._options = RemoteOptions.parse("s3", options)
        self._client: Any = None

    def receive(self, most: int) -> list[QueueMessage]:
        """Receive messages until there are no more, or `most`."""
        found: list[QueueMessage] = []
        while len(found) < most:
            request = {"MaxNumberOfMessages": min(_AT_ONCE, most - len(found))}
            wait = 0 if found else _WAIT_SECONDS
            answer = self._call("receive_message", **request, WaitTimeSeconds=wait)
            messages = answer.get("Messages", ())
            found += [QueueMessage(m["MessageId"], m["ReceiptHandle"], m["Body"]) for m in messages]
            if not messages:
                break
        return found

    def delete(self, receipts: Sequence[str]) -> list[str]:
        """Delete messages; returns why some were not: such a message comes again."""
        failed: list[str] = []
        for at in range(0, len(receipts), _AT_ONCE):
            entries = [{"Id": str(i), "ReceiptHandle": r} for i, r in enumerate(receipts[at : at + _AT_ONCE])]
            answer = self._call("delete_message_batch", Entries=entries)
            failed += [f"{f.get('Code')}: {f.get('Message', '')}".strip(": ") for f in answer.get("Failed", ())]
        return failed

    def _call(self, method: str, **request: Any) -> Mapping[str, Any]:
        try:
            if self._client is None:
                self._client = self._connect()
            answer: Mapping[str, Any] = getattr(self._client, method)(QueueUrl=self._url, **request)
        except _failures() as error:
            raise self._translated(error) from error
        return answer

    def _translated(self, error: Exception) -> LakeIdxError:
        answer = getattr(error, "response", {})
        code = str(answer.get("Error", {}).get("Code", ""))
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0
        if "NonExistentQueue" in code or "QueueDoesNotExist" in code:
            return NotFoundError("there is no such queue: landing.events.url names it", path=self._url)
        if type(error).__name__ in _NO_CREDENTIALS or status in (401, 403):
            return InvalidInputError(f"access denied: {error}", path=self._url)
        if 400 <= status < 500 and not any(word in code for word in _LATER):
            return InvalidInputError(f"the queue refused the request: {error}", path=self._url)
        return UnavailableError(f"the queue did not answer: {error}", path=self._url)

    def _connect(self) -> Any:
        try:
            import botocore.session
            from botocore.config import Config
        except ModuleNotFoundError as e:
            raise InvalidInputError("event queues need boto3: pip install 'lakeidx[aws]'", path=self._url) from e

        options, place = self._options, urlsplit(self._url)
        region = _REGION.search(place.hostname or "")
        endpoint = os.environ.get("AWS_ENDPOINT_URL_SQS") or f"{place.scheme}://{place.netloc}"
        check_endpoint(endpoint, "AWS_ENDPOINT_URL_SQS or landing.events.url")
        # With an endpoint of its own signing needs some region.
        other = options.config.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        create: Callable[..., Any] = botocore.session.Session(profile=options.profile).create_client
        return create(
            "sqs",
            endpoint_url=endpoint,
            region_name=region[1] if region else other or ("us-east-1" if options.endpoint() else None),
            verify=options.verify,
            aws_access_key_id=options.config.get("access_key_id"),
            aws_secret_access_key=options.config.get("secret_access_key"),
            aws_session_token=options.config.get("session_token"),
            config=Config(
                connect_timeout=min(options.connect_timeout, _TIMEOUT_SECONDS),
                read_timeout=min(options.read_timeout, _TIMEOUT_SECONDS) + _WAIT_SECONDS,
                retries={"total_max_attempts": min(options.max_attempts, _MAX_ATTEMPTS), "mode": "standard"},
            ),
        )


def _failures() -> tuple[type[Exception], ...]:
    """List what a request may raise; everything else is a bug."""
    try:
        from botocore.exceptions import BotoCoreError, ClientError
    except ModuleNotFoundError:
        return ()
    return (OSError, BotoCoreError, ClientError)
