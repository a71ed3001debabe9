"""Consumer files ``consumer/consumer-<id>``: JSON ``{"nextSnapshot" : N}``. Snapshots from N on are kept for the consumer.

lakeidx writes where its reader stands under a key of its own, which Java skips and drops when it writes the file.

source   org.apache.paimon.consumer.Consumer, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeidx.format.json_text import JsonObject
from lakeidx.format.json_write import format_json

_POSITION = "lakeidx.position"


def encode_consumer(next_snapshot: int, position: Mapping[str, Any] | None = None) -> bytes:
    """Encode the file.

    next_snapshot   id of the first snapshot that expiry must leave: the first one the consumer has not read
    position        where a reader of lakeidx stands
    """
    return format_json({"nextSnapshot": next_snapshot} | ({} if position is None else {_POSITION: position}))


def decode_consumer(data: bytes, path: str | None = None) -> int:
    """Decode the id of the first snapshot the consumer has not read.

    errors   CorruptFileError
    """
    return JsonObject.parse(data, path).need_int("nextSnapshot")


def decode_consumer_position(data: bytes, path: str | None = None) -> Mapping[str, Any] | None:
    """Decode the position of a reader of lakeidx; None when another program wrote the file last.

    errors   CorruptFileError
    """
    o = JsonObject.parse(data, path)
    found = o.value.get(_POSITION)
    if found is None or isinstance(found, Mapping):
        return found
    raise o.error(_POSITION, "an object")


def decode_hint(data: bytes) -> int | None:
    """Decode the id in a hint file, line ends ignored; None when it has none (a hint is never relied on, so this is no error)."""
    text = bytes(data).replace(b"\n", b"").replace(b"\r", b"").strip()
    if not text.isdigit() or len(text) > 19:
        return None
    return int(text)
