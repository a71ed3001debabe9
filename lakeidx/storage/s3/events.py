"""Event notifications of S3: which objects a message says were created. Pure.

A message is what S3 sends to a queue, as it is or wrapped by SNS. Keys in it are encoded as in a URL's query, with + for a space.

source   https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html, event version 2.x; MinIO
         and Ceph send the same, with ``s3:`` before the name of an event
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from lakeidx.errors import InvalidInputError

_CREATED = "ObjectCreated:"


class CreatedObject(NamedTuple):
    """An object that was put, copied or completed; `key` as it is in the bucket."""

    bucket: str
    key: str


def created_objects(body: str) -> list[CreatedObject]:
    """List the objects a message says were created; none for a message about others, or that only tests the queue.

    errors   InvalidInputError for a message that is no event notification of S3
    """
    message = _mapping(body)
    if "Records" not in message and isinstance(message.get("Message"), str):
        message = _mapping(message["Message"])
    if message.get("Event") == "s3:TestEvent":
        return []
    records = message.get("Records")
    if not isinstance(records, list):
        raise _wrong("it has no list 'Records'")
    found = (_object_of(number, record) for number, record in enumerate(records, 1))
    return [o for o in found if o is not None]


def _mapping(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"it is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise _wrong("it is not a JSON object")
    return value


def _object_of(number: int, record: Any) -> CreatedObject | None:
    """Return the object of a record; None when it says something else than that one was created."""
    try:
        event, s3 = record["eventName"], record["s3"]
        bucket, key = s3["bucket"]["name"], s3["object"]["key"]
    except (KeyError, TypeError):
        raise _wrong(f"record {number} lacks eventName, s3.bucket.name or s3.object.key") from None
    if not all(isinstance(text, str) and text for text in (event, bucket, key)):
        raise _wrong(f"record {number} has eventName, s3.bucket.name or s3.object.key that is no text, or empty")
    if not event.removeprefix("s3:").startswith(_CREATED):
        return None
    try:
        return CreatedObject(bucket, unquote_plus(key, errors="strict"))
    except UnicodeDecodeError:
        raise _wrong(f"the key of record {number} is not UTF-8: {key!r}") from None


def _wrong(what: str) -> InvalidInputError:
    return InvalidInputError(f"no event notification of S3: {what}")
