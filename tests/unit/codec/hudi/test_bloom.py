"""Hudi's filters: the kernels against a dictionary-of-bits model, growth, and damaged bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.hudi.bloom import (
    DYNAMIC_V0,
    JENKINS,
    SIMPLE,
    BloomFilter,
    decode_filter,
    decode_filter_base64,
    first_hashes,
    new_filter,
    size_filter,
)
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, InvalidInputError, UnsupportedError
from tests.kit.scalar_twins import bloom_positions

KEYS = st.lists(st.binary(min_size=1, max_size=21), max_size=60)


class ModelFilter:
    """Sets of bit numbers, one per row, grown key by key in the words of the format sheet."""

    def __init__(self, nr: int, max_nr: int, m_bits: int, rounds: int, hash_type: int) -> None:
        self.rows: list[set[int]] = [set()]
        self.nr, self.max_nr, self.m_bits, self.rounds, self.hash_type = nr, max_nr, m_bits, rounds, hash_type
        self.current, self.full, self.turn = 0, False, 0

    def add(self, key: bytes) -> None:
        if not self.nr:
            row = self.rows[0]
        elif self.full:
            row = self.rows[self.turn % len(self.rows)]
            self.turn += 1
        elif self.current >= self.nr and len(self.rows) * self.nr < self.max_nr:
            row = set()
            self.rows.append(row)
            self.current = 0
        elif self.current >= self.nr:
            self.full = True
            row = self.rows[0]
        else:
            row = self.rows[-1]
        row.update(bloom_positions(key, rounds=self.rounds, bits=self.m_bits, hash_type=self.hash_type))
        self.current += 1

    def test(self, key: bytes) -> bool:
        wanted = set(bloom_positions(key, rounds=self.rounds, bits=self.m_bits, hash_type=self.hash_type))
        return any(wanted <= row for row in self.rows)


def _bit_sets(built: BloomFilter) -> list[set[int]]:
    return [set(np.flatnonzero(np.unpackbits(row, bitorder="little")).tolist()) for row in built.bits]


@settings(max_examples=60, deadline=None)
@given(
    KEYS,
    KEYS,
    st.sampled_from([SIMPLE, DYNAMIC_V0]),
    st.integers(1, 20),
    st.sampled_from([0.3, 0.01, 1e-6]),
    st.integers(0, 70),
    st.sampled_from([0, 1]),
    st.lists(st.integers(0, 59), max_size=3),
)
def test_filter_equals_its_model(
    keys: list[bytes],
    others: list[bytes],
    code: str,
    entries: int,
    fpp: float,
    max_entries: int,
    hash_type: int,
    cuts: list[int],
) -> None:
    built = new_filter(code, num_entries=entries, fpp=fpp, max_entries=max_entries)
    built.hash_type = hash_type
    model = ModelFilter(entries if code == DYNAMIC_V0 else 0, max_entries, built.m_bits, built.rounds, hash_type)
    bounds = [0, *sorted(min(c, len(keys)) for c in cuts), len(keys)]
    for start, stop in itertools.pairwise(bounds):
        built.add(RowBytes.from_list(keys[start:stop]))
    for key in keys:
        model.add(key)
    assert _bit_sets(built) == model.rows
    if code == DYNAMIC_V0:
        assert built.current == model.current
    probes = keys + others
    packed = RowBytes.from_list(probes)
    assert built.test(packed).tolist() == [model.test(k) for k in probes]
    order = np.arange(len(probes))[::-1]
    assert built.test(packed, order, first_hashes(packed)).tolist() == [model.test(k) for k in probes[::-1]]
    read = decode_filter(built.to_bytes(), code)
    assert read.to_bytes() == built.to_bytes()
    assert read.test(RowBytes.from_list(probes)).tolist() == [model.test(k) for k in probes]


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
