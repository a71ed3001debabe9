"""A walk over records, against records put together by hand from the Avro specification."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lakeidx.codec.containers.avro_walk import ABSENT, compiled

SCHEMA = json.dumps({"type": "record", "name": "r", "fields": [
    {"name": "longs", "type": {"type": "array", "items": ["null", "long"]}},
    {"name": "texts", "type": {"type": "array", "items": "string"}},
    {"name": "maybe", "type": ["null", "long"]},
    {"name": "number", "type": "double"},
    {"name": "last", "type": "int"},
]}).encode()  # fmt: skip
WANTED = (((("maybe",)), "value"), ((("last",)), "value"))
NUMBER = bytes(8)
#: Three longs (1, null, 2) and two texts, in blocks with and without the bytes they take (counts of -n).
LONGS = {"one block": b"\x06\x02\x02\x00\x02\x04\x00", "with bytes": b"\x05\x0a\x02\x02\x00\x02\x04\x00"}
TEXTS = {"one block": b"\x04\x02a\x04bc\x00", "two with bytes": b"\x01\x04\x02a\x01\x06\x04bc\x00"}


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("longs", LONGS)
def test_arrays_may_say_how_many_bytes_they_have(longs: str, texts: str) -> None:
    arrays = LONGS[longs] + TEXTS[texts]
    records = [arrays + b"\x02\x0e" + NUMBER + b"\x12", arrays + b"\x00" + NUMBER + b"\x13"]
    walk = compiled(SCHEMA, WANTED)
    found = walk.records(b"".join(records), 2)
    assert found is not None
    assert found.tolist() == [[0, len(records[0])], [len(records[0]), sum(map(len, records))], [7, ABSENT], [9, -10]]
    for end in range(len(records[0])):
        assert walk.records(records[0][:end], 1) is None
    at = np.array([len(records[0])])
    some = walk.records_at(b"".join(records), at)
    assert some is not None
    assert some[3].tolist() == [-10]


@pytest.mark.parametrize("bad", [b"\x02\x04", b"\x01", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xfe\x01\x02"])
def test_damaged_arrays_are_refused(bad: bytes) -> None:
    assert compiled(SCHEMA, WANTED).records(bad + bytes(12), 1) is None
