"""Java's properties text; expected values follow the rules in the documentation of java.util.Properties."""

from __future__ import annotations

import pytest

from lakeidx.errors import CorruptFileError
from lakeidx.key_index.hudi_table.timeline import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2\nc : 3\nd 4\ne\tf", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "f"}),
        ("# note\n! note\n\n  a=1", {"a": "1"}),
        ("a=x\\\n   y\\\n z", {"a": "xyz"}),
        ("a=x\\\\\nb=1", {"a": "x\\", "b": "1"}),
        ("a\\=b\\ c=d", {"a=b c": "d"}),
        ("a=\\t\\n\\q\\u00e9\\ud83d\\ude00", {"a": "\t\nqé😀"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=\nb", {"a": "", "b": ""}),
        ("a = = b", {"a": "= b"}),
        ("", {}),
        ("#only\\\na=1", {"a": "1"}),
        ("a=tail\\", {"a": "tail"}),
    ],
)
def test_properties_are_read_as_java_does(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text.encode("latin-1")) == expected


def test_bytes_are_latin_1() -> None:
    assert parse_properties(b"a=\xe9") == {"a": "é"}


@pytest.mark.parametrize("text", [b"a=\\u12", b"a=\\uzzzz"])
def test_a_damaged_escape_is_an_error(text: bytes) -> None:
    with pytest.raises(CorruptFileError):
        parse_properties(text, "p")
