"""Consumer files ``consumer/consumer-<id>``: JSON ``{"nextSnapshot" : N}``. Snapshots from N on are kept for the consumer.

source   org.apache.paimon.consumer.Consumer, release 1.4.2
"""

from __future__ import annotations

from lakeidx.format.json_text import JsonObject, format_json


def encode_consumer(next_snapshot: int) -> bytes:
    """Encode the file.

    next_snapshot   id of the first snapshot the consumer has not read
    """
    return format_json({"nextSnapshot": next_snapshot})


def decode_consumer(data: bytes, path: str | None = None) -> int:
    """Decode the id of the first snapshot the consumer has not read.

    errors   CorruptFileError
    """
    return JsonObject.parse(data, path).need_int("nextSnapshot")


def encode_hint(id: int) -> bytes:
    """Encode a ``LATEST`` or ``EARLIEST`` file: the id as decimal text, no newline."""
    return str(id).encode()


def decode_hint(data: bytes) -> int | None:
    """Decode the id in a hint file, line ends ignored; None when it holds none (a hint is never relied on, so this is no error)."""
    text = bytes(data).replace(b"\n", b"").replace(b"\r", b"").strip()
    if not text.isdigit() or len(text) > 19:
        return None
    return int(text)
