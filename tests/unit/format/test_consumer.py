from __future__ import annotations

import pytest

from lakeidx.errors import CorruptFileError
from lakeidx.format.consumer import decode_consumer, decode_consumer_position, decode_hint, encode_consumer


def test_a_consumer_file_has_the_next_snapshot() -> None:
    assert encode_consumer(7) == b'{\n  "nextSnapshot" : 7\n}'
    assert decode_consumer(encode_consumer(7)) == 7
    assert decode_consumer(b'{"nextSnapshot":12,"x":1}') == 12
    assert decode_consumer(encode_consumer(7, {"snapshot": 6})) == 7
    assert decode_consumer_position(encode_consumer(7, {"snapshot": 6})) == {"snapshot": 6}
    assert decode_consumer_position(encode_consumer(7)) is None
    with pytest.raises(CorruptFileError):
        decode_consumer_position(b'{"nextSnapshot":7,"lakeidx.position":[]}', "consumer-c")
    for bad in (b"{}", b"", b'{"nextSnapshot":"x"}'):
        with pytest.raises(CorruptFileError) as caught:
            decode_consumer(bad, "consumer-c")
        assert caught.value.path == "consumer-c"


@pytest.mark.parametrize(
    ("data", "id"), [(b"5", 5), (b"5\n", 5), (b"1\r\n2", 12), (b" 7 ", 7), (b"", None), (b"x", None), (b"-1", None),
                     (b"\xff", None), (b"1" * 30, None), ("٣".encode(), None)],
)  # fmt: skip
def test_a_hint_is_a_number_or_nothing(data: bytes, id: int | None) -> None:
    assert decode_hint(data) == id
