"""Bloom filter payloads: worked bytes of the released Java, forms of columns, damaged heads."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest

from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.file_index.kinds.bloom import BloomFilterIndexer
from lakeidx.file_index.kinds.types import Verdict
from lakeidx.predicate import Leaf, Predicate, col
from lakeidx.types import parse_type
from tests.unit.file_index.kinds import payloads

INDEXER = BloomFilterIndexer()
build = partial(payloads.build, INDEXER, items="10")
c = col("c")


def ask(type_text: str, payload: bytes, pred: Predicate) -> Verdict:
    assert isinstance(pred, Leaf)
    got = INDEXER.create_reader(parse_type(type_text), payload).select(pred)
    assert isinstance(got, Verdict)
    return got


def test_every_form_of_a_column_gives_the_same_filter() -> None:
    words = pa.array(["before", "a", None, "b", "a"]).slice(1)
    expected = build("STRING", words)
    encoded = words.dictionary_encode()
    odd = pa.DictionaryArray.from_arrays(pa.array([1, None, 2, 1], pa.int8()), pa.array(["unused", "a", "b"]))
    forms = [
        (words.slice(0, 2), words.slice(2)),
        (pa.chunked_array([words.slice(0, 2), words.slice(2)]),),
        (encoded,),
        (pa.chunked_array([encoded.slice(0, 1), encoded.slice(1)]),),
        (odd,),
        (words.cast(pa.large_string()),),
        (words.cast(pa.string_view()),),
    ]
    for columns in forms:
        assert build("STRING", *columns) == expected, columns
    assert build("STRING", pa.array([], pa.string())) == build("STRING", pa.array([None, None], pa.string()))


def test_a_filter_skips_absent_values_only() -> None:
    payload = build("STRING", pa.array(["a", "b", None]), items="1000")
    assert ask("STRING", payload, c == "a") is Verdict.REMAIN
    assert ask("STRING", payload, c == "surely absent") is Verdict.SKIP
    assert ask("STRING", payload, c.is_in(["surely absent", "b"])) is Verdict.REMAIN
    assert ask("STRING", payload, c.is_in(["surely absent", "another"])) is Verdict.SKIP
    assert ask("STRING", payload, c.is_in(["surely absent", None])) is Verdict.REMAIN
    others = (c != "x", c < "x", c.is_null(), c.is_not_null(), c.startswith("x"), c.not_in(["x"]))
    assert all(ask("STRING", payload, p) is Verdict.REMAIN for p in others)


@pytest.mark.parametrize("head", ["", "00", "00000003", "0000000000", "ffffffff00", "7fffffff00"])
def test_a_damaged_head_is_an_error(head: str) -> None:
    with pytest.raises(CorruptFileError):
        INDEXER.create_reader(parse_type("INT"), bytes.fromhex(head), path="f")


@pytest.mark.parametrize("options", [{"items": "x"}, {"items": "0"}, {"fpp": "2"}, {"fpp": ""}])
def test_bad_options_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError):
        INDEXER.create_writer(parse_type("INT"), options)
