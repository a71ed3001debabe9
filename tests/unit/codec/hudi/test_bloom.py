"""Hudi's filters, beside the bytes and answers of Hudi itself (golden_tests/test_hudi)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.codec.hudi.bloom import (
    DYNAMIC_V0,
    JENKINS,
    SIMPLE,
    decode_filter,
    decode_filter_base64,
    new_filter,
    size_filter,
)
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, InvalidInputError, UnsupportedError


def test_take_tests_only_the_chosen_rows() -> None:
    keys = RowBytes.from_arrow(pa.array(["a", "bb", "ccc", "dddd"]))
    built = new_filter(SIMPLE, num_entries=10, fpp=1e-9, max_entries=0)
    built.add(keys.slice(1, 3))
    assert built.test(keys, np.array([3, 2, 0, 2])).tolist() == [False, True, False, True]
    assert built.test(keys, np.zeros(0, np.int64)).tolist() == []


def test_old_header_means_jenkins() -> None:
    built = new_filter(SIMPLE, num_entries=8, fpp=1e-4, max_entries=0)
    built.hash_type = JENKINS
    keys = RowBytes.from_list([b"one", b"two", b"a key that is longer than twelve bytes"])
    built.add(keys)
    new = built.to_bytes()
    old = built.rounds.to_bytes(4, "big") + built.m_bits.to_bytes(4, "big") + new[13:]
    read = decode_filter(old)
    assert read.hash_type == JENKINS
    assert read.test(keys).all()
    assert not read.test(RowBytes.from_list([b"three"])).any()
    assert read.to_bytes() == new


def test_type_codes_in_any_case() -> None:
    assert new_filter("simple", num_entries=1, fpp=0.1, max_entries=0).type_code == SIMPLE
    assert new_filter("dynamic_v0", num_entries=1, fpp=0.1, max_entries=9).type_code == DYNAMIC_V0
    with pytest.raises(UnsupportedError, match="CUCKOO"):
        new_filter("CUCKOO", num_entries=1, fpp=0.1, max_entries=0)
    with pytest.raises(UnsupportedError, match="CUCKOO"):
        decode_filter(b"", "CUCKOO")


@pytest.mark.parametrize(
    ("entries", "fpp"), [(0, 0.1), (-1, 0.1), (1, 0.0), (1, 1.0), (1, float("nan")), (10**9, 1e-9)]
)
def test_impossible_sizes_are_refused(entries: int, fpp: float) -> None:
    with pytest.raises(InvalidInputError):
        size_filter(entries, fpp)


def test_empty_keys_are_refused_before_anything_changes() -> None:
    built = new_filter(DYNAMIC_V0, num_entries=2, fpp=0.1, max_entries=9)
    before = built.to_bytes()
    with pytest.raises(InvalidInputError, match="row 1"):
        built.add(RowBytes.from_list([b"a", b"", b"c"]))
    assert built.to_bytes() == before
    with pytest.raises(InvalidInputError, match="row 1"):
        built.test(RowBytes.from_list([b"a", b""]))


@pytest.mark.parametrize("text", ["****", "AAA", "AAAA", "/////w==", "é"])
def test_text_that_is_no_filter(text: str) -> None:
    with pytest.raises(CorruptFileError):
        decode_filter_base64(text, SIMPLE, path="x")


def test_a_filter_of_its_planned_keys_is_half_full() -> None:
    built = new_filter(SIMPLE, num_entries=100, fpp=0.01, max_entries=0)
    assert built.fill == 0.0
    built.add(RowBytes.from_list([str(i).encode() for i in range(100)]))
    # A filter holding as many keys as it was made for is about half full.
    assert 0.4 < built.fill < 0.6
