"""Event notifications of S3: the created objects that a message names. Pure.

A message is what S3 sends to a queue, or what EventBridge sends of S3, as it is or wrapped by SNS. S3 itself encodes keys as in a
URL's query, with + for a space; EventBridge has them as they are.

source   https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html, event version 2.x; MinIO
         and Ceph send the same, with ``s3:`` before the name of an event.
         https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html, version 0
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from lakeidx.errors import InvalidInputError

_CREATED = "ObjectCreated:"
_SOURCE, _DETAIL_TYPE, _CREATED_TYPE = "aws.s3", "detail-type", "Object Created"


class CreatedObject(NamedTuple):
    """An object that was put, copied or completed; `key` as it is in the bucket."""

    bucket: str
    key: str


def created_objects(body: str) -> list[CreatedObject]:
    """List the created objects that a message names; none for a message about other events, or a test of the queue.

    errors   InvalidInputError for a message that is no event notification of S3
    """
    message = _mapping(body)
    if "Records" not in message and isinstance(message.get("Message"), str):
        message = _mapping(message["Message"])
    if message.get("Event") == "s3:TestEvent":
        return []
    if message.get("source") == _SOURCE and _DETAIL_TYPE in message:
        return _of_event_bridge(message)
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


def _of_event_bridge(message: dict[str, Any]) -> list[CreatedObject]:
    """List the one object of an event that EventBridge sends; none for another event than its creation."""
    if message[_DETAIL_TYPE] != _CREATED_TYPE:
        return []
    try:
        detail = message["detail"]
        bucket, key = detail["bucket"]["name"], detail["object"]["key"]
    except (KeyError, TypeError):
        raise _wrong("the event of EventBridge lacks detail.bucket.name or detail.object.key") from None
    if not all(isinstance(text, str) and text for text in (bucket, key)):
        raise _wrong("the event of EventBridge has detail.bucket.name or detail.object.key that is empty or not text")
    return [CreatedObject(bucket, key)]


def _object_of(number: int, record: Any) -> CreatedObject | None:
    """Return the object of a record; None for another event than its creation."""
    try:
        event, s3 = record["eventName"], record["s3"]
        bucket, key = s3["bucket"]["name"], s3["object"]["key"]
    except (KeyError, TypeError):
        raise _wrong(f"record {number} lacks eventName, s3.bucket.name or s3.object.key") from None
    if not all(isinstance(text, str) and text for text in (event, bucket, key)):
        raise _wrong(f"record {number} has eventName, s3.bucket.name or s3.object.key that is empty or not text")
    if not event.removeprefix("s3:").startswith(_CREATED):
        return None
    try:
        return CreatedObject(bucket, unquote_plus(key, errors="strict"))
    except UnicodeDecodeError:
        raise _wrong(f"the key of record {number} is not UTF-8: {key!r}") from None


def _wrong(what: str) -> InvalidInputError:
    return InvalidInputError(f"no event notification of S3: {what}")
