from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.errors import CorruptFileError
from lakeidx.format.json_text import JsonObject
from lakeidx.format.json_write import format_json

text = st.text(st.characters(codec="utf-8"), max_size=10)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_it_is_json(value: Any) -> None:
    assert json.loads(format_json(value)) == value


def test_jackson_s_layout() -> None:
    value = {
        "a": 1,
        "b": [],
        "c": {},
        "d": [1, 2],
        "e": [{"x": None}, {"y": True}],
        "f": {"g": [["é"]]},
        "h": Decimal("1.50"),
    }
    assert format_json(value).decode() == (
        '{\n  "a" : 1,\n  "b" : [ ],\n  "c" : { },\n  "d" : [ 1, 2 ],\n  "e" : [ {\n    "x" : null\n  }, {\n    "y" : true\n'
        '  } ],\n  "f" : {\n    "g" : [ [ "é" ] ]\n  },\n  "h" : 1.50\n}'
    )


def test_jackson_s_escapes() -> None:
    value = "".join(map(chr, range(33))) + '"\\/\x7f\u2028é𝄞'
    assert format_json(value).decode() == (
        '"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000B\\f\\r\\u000E\\u000F\\u0010\\u0011\\u0012\\u0013\\u0014'
        '\\u0015\\u0016\\u0017\\u0018\\u0019\\u001A\\u001B\\u001C\\u001D\\u001E\\u001F \\"\\\\/\x7f\u2028é𝄞"'
    )


@pytest.mark.parametrize(
    ("data", "message", "offset"),
    [
        (b"", "not JSON", 0),
        (b"\xff{}", "not UTF-8", 0),
        ('{"é" : x}'.encode(), "not JSON", 8),
        (b'{"a":NaN}', "not JSON", None),
        (b'{"a":1e99999999999999999999}', "not JSON", None),
        (b"[1]", "expected a JSON object, found list", 0),
        (b"7", "expected a JSON object", 0),
        (b'{"a":' * 20_000, "not JSON", None),
        (b'{"a":' + b"9" * 5000 + b"}", "not JSON", None),
    ],
)
def test_what_is_not_json(data: bytes, message: str, offset: int | None) -> None:
    with pytest.raises(CorruptFileError, match=message) as caught:
        JsonObject.parse(data, "f").get_int("a")
    assert caught.value.path == "f"
    if offset is not None:
        assert caught.value.offset == offset


def test_values_of_the_right_type_are_read() -> None:
    o = JsonObject.parse(
        b'{"i":5,"n":null,"s":"x","l":["a"],"m":{"a":"1","b":2,"c":true,"d":null},"o":[{"i":1},{}]}', "f"
    )
    assert (o.need_int("i"), o.get_int("n"), o.get_int("zz"), o.need_int("zz", 7)) == (5, None, None, 7)
    assert [JsonObject.parse(b'{"i":%b}' % n, "f").get_int("i") for n in (b"5.0", b"50e-1", b'"5"', b'"-5"')] == [
        5,
        5,
        5,
        -5,
    ]
    assert (o.need_text("s"), o.get_text("n")) == ("x", None)
    assert (o.strings("l"), o.strings("zz")) == (("a",), ())
    assert (o.string_map("m"), o.string_map("zz")) == ({"a": "1", "b": "2", "c": "true"}, {})
    assert o.objects("o")[0].need_int("i") == 1
    assert (o.has("i"), o.has("n"), o.has("zz")) == (True, False, False)
    with pytest.raises(CorruptFileError, match=r"o\[1\]\.i: expected a 64-bit integer, found nothing"):
        o.objects("o")[1].need_int("i")


@pytest.mark.parametrize(
    ("getter", "value"),
    [
        ("get_int", '"x"'), ("get_int", '""'), ("get_int", "true"), ("get_int", "5.5"), ("get_int", "1e99"), ("get_int", "1E-9"),
        ("get_int", "9223372036854775808"), ("get_int", '"9223372036854775808"'), ("get_text", "5"),
        ("get_text", '"\\ud800"'), ("strings", '"a"'), ("strings", "[1]"), ("strings", '["\\udfff"]'), ("string_map", "[]"),
        ("string_map", '{"a":[]}'), ("string_map", '{"\\ud800":"a"}'), ("objects", "{}"), ("objects", "[1]"), ("objects", "null"),
        ("need_int", "null"), ("need_text", "null"),
    ],
)  # fmt: skip
def test_wrong_values_name_the_key(getter: str, value: str) -> None:
    o = JsonObject.parse(f'{{"key":{value}}}'.encode(), "f")
    with pytest.raises(CorruptFileError, match="key: expected") as caught:
        getattr(o, getter)("key")
    assert caught.value.path == "f"
