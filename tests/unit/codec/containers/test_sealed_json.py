"""JSON texts sealed with a checksum."""

from __future__ import annotations

import json
import zlib

import pytest

from lakeidx.codec.containers.checksum import seal, unseal
from lakeidx.errors import CorruptFileError


@pytest.mark.parametrize("text", [b'{"a": 1}', b'{\n "a": [1, 2],\n "b": "\xc3\xa9"\n}'])
def test_what_is_sealed_is_opened(text: bytes) -> None:
    sealed = seal(text)
    assert unseal(sealed) == text
    assert json.loads(sealed) == json.loads(text) | {"crc32": zlib.crc32(text)}


def test_text_of_an_older_release_is_taken_as_it_is() -> None:
    assert unseal(b'{"a": 1}') == b'{"a": 1}'


def test_another_text_is_damaged() -> None:
    sealed = seal(b'{"a": 1, "b": 2}').replace(b'"a": 1', b'"a": 3')
    with pytest.raises(CorruptFileError, match=r"f\.json at byte 15: the checksum is"):
        unseal(sealed, "f.json")
