"""JSON files cut at each byte, and with each byte changed: a value or a CorruptFileError, nothing else.

A changed digit can make the version a later one; that is the one other answer allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.format.consumer import decode_consumer, encode_consumer
from lakeidx.format.schema.schema_file import decode_schema
from lakeidx.format.snapshot import decode_snapshot
from lakeidx.format.statistics import decode_statistics
from lakeidx.format.tag import Tag, decode_tag, encode_tag
from tests.kit.scalar_twins import encode_statistics
from tests.unit.format import test_snapshot, test_statistics, test_tag
from tests.unit.format.schema import test_schema_file as test_schema

TAG = encode_tag(Tag(snapshot=test_tag.SNAPSHOT, create_time_ns=test_tag.CREATED, time_retained_ns=10**9))
KINDS: list[Any] = [
    pytest.param(decode_schema, test_schema.TEXT.encode(), id="schema"),
    pytest.param(decode_snapshot, test_snapshot.TEXT.encode(), id="snapshot"),
    pytest.param(decode_tag, TAG, id="tag"),
    pytest.param(decode_consumer, encode_consumer(12), id="consumer"),
    pytest.param(decode_statistics, encode_statistics(test_statistics.STATS), id="statistics"),
]


@pytest.mark.parametrize(("decode", "data"), KINDS)
def test_a_file_cut_at_any_byte_is_damaged(decode: Callable[..., Any], data: bytes) -> None:
    decode(data, "f")
    for cut in range(len(data)):
        with pytest.raises(CorruptFileError) as caught:
            decode(data[:cut], "f")
        assert caught.value.path == "f"


@pytest.mark.parametrize(("decode", "data"), KINDS)
@pytest.mark.parametrize(
    "change", [lambda b: b ^ 1, lambda b: b ^ 0x80, lambda b: 0, lambda b: ord('"'), lambda b: ord("9")]
)
def test_a_changed_byte_is_an_error_or_a_value(
    decode: Callable[..., Any], data: bytes, change: Callable[[int], int]
) -> None:
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] = change(damaged[at])
        error = outcome(decode, bytes(damaged))
        if isinstance(error, UnsupportedError):
            assert at in range(data.index(b'"version" :') + len(b'"version" :'), data.index(b","))
        elif error is not None:
            assert error.path == "f"


def outcome(decode: Callable[..., Any], data: bytes) -> CorruptFileError | UnsupportedError | None:
    try:
        decode(data, "f")
    except (CorruptFileError, UnsupportedError) as e:
        return e
    return None
