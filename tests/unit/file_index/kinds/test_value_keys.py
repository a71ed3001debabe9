"""Column values as numbers and key bytes, against struct and plain sorting."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.cursor import Cursor
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.file_index.kinds.value_keys import (
    KeyCollector,
    read_key,
)
from lakeidx.types import parse_type


@given(st.lists(st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=8), max_size=4), st.data())
def test_strings_from_any_form_of_column(batches: list[list[str | None]], data: st.DataObject) -> None:
    t = parse_type("STRING")
    collector = KeyCollector(t)
    for batch in batches:
        column: Any = pa.array(batch, pa.string())
        form = data.draw(st.sampled_from(["plain", "dictionary", "odd dictionary", "sliced", "chunked", "large"]))
        if form == "dictionary":
            column = column.dictionary_encode()
        elif form == "odd dictionary":  # a value twice, and one that no row has
            words = ["unused", *[w for w in batch if w is not None], *[w for w in batch if w is not None]]
            indices = [None if w is None else len(words) - 1 - words[::-1].index(w) for w in batch]
            column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(words, pa.string()))
        elif form == "sliced":
            column = pa.concat_arrays([pa.array(["before"]), column]).slice(1)
        elif form == "chunked":
            column = pa.chunked_array([column.slice(0, 2), column.slice(2)], pa.string())
        elif form == "large":
            column = column.cast(pa.large_string())
        collector.add(column)
    rows = [w for batch in batches for w in batch]
    words = sorted({w.encode() for w in rows if w is not None})  # type: ignore[misc]
    found = collector.distinct()
    assert isinstance(found.keys, RowBytes) or not rows
    assert list(found.keys) == words
    assert found.codes.tolist() == [-1 if w is None else words.index(w.encode()) for w in rows]  # type: ignore[arg-type]


def test_damaged_keys_are_errors() -> None:
    with pytest.raises(CorruptFileError, match="neither 0 nor 1"):
        read_key(Cursor(b"\x02"), parse_type("BOOLEAN"))
    with pytest.raises(CorruptFileError, match="a key of -1 bytes"):
        read_key(Cursor(b"\xff\xff\xff\xff"), parse_type("STRING"))
    with pytest.raises(CorruptFileError):
        read_key(Cursor(b"\x00\x00\x00"), parse_type("INT"))
