from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.sst_sections import (
    SECTION_BYTES,
    Section,
    decode_sections,
    encode_section,
    first_entries_of_sections,
)

six = st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6)


@given(six)
def test_a_section_is_six_numbers(numbers: list[int]) -> None:
    assert encode_section(Section(*numbers)) == struct.pack("<6I", *numbers)


def test_sections_are_columns() -> None:
    sections = [(10, 2, 7, 100, 3, 2**32 - 1), (5, 0, 0, 0, 0, 9)]
    columns = decode_sections(RowBytes.from_list([struct.pack("<6I", *s) for s in sections]), 15)
    assert columns.dtype == np.int64
    assert columns.T.tolist() == [list(s) for s in sections]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([struct.pack("<5I", 1, 0, 1, 0, 0)], "does not have 24 bytes"),
        ([struct.pack("<6I", 4, 0, 4, 0, 0, 0), struct.pack("<6I", 6, 3, 4, 0, 0, 0)], "section 1 leaves its range"),
        ([struct.pack("<6I", 10, 2**32 - 1, 1, 0, 0, 0)], "section 0 leaves its range"),
        ([struct.pack("<6I", 10, 0, 1, 0, 0, 0), struct.pack("<6I", 0, 0, 0, 0, 0, 0)], "section 1 leaves its range"),
        ([struct.pack("<6I", 9, 0, 9, 0, 0, 0)], "sections end at 9, data blocks at 10"),
    ],
)
def test_sections_that_cannot_be_are_damage(values: list[bytes], said: str) -> None:
    with pytest.raises(CorruptFileError, match=said) as caught:
        decode_sections(RowBytes.from_list(values), 10, path="x.sst")
    assert (caught.value.path, caught.value.offset) == ("x.sst", 10)


@given(st.lists(st.integers(1, 30_000), min_size=1, max_size=60))
def test_entries_are_cut_into_sections_that_are_alike(sizes: list[int]) -> None:
    starts, end = np.cumsum([0, *sizes[:-1]]), sum(sizes)
    firsts = first_entries_of_sections(starts, end)
    assert firsts[0] == 0
    assert firsts == sorted(set(firsts))
    assert firsts[-1] < len(sizes)
    bounds = [*starts[firsts].tolist(), end]
    for first, begin, after in zip(firsts, bounds, bounds[1:], strict=False):
        # Half a section more than wanted, and the entries at both ends.
        assert after - begin <= 1.5 * SECTION_BYTES + 2 * max(sizes), first
    if end < 1.5 * SECTION_BYTES:
        assert len(firsts) == 1
