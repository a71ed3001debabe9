"""The key table of a batch against a dictionary, for every kind of key."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.errors import InternalError, InvalidInputError
from lakeidx.key_index.keys.codes import KeyCodes, key_codes
from lakeidx.key_index.keys.sets import KeySet, hash_codes
from lakeidx.types import parse_type, to_arrow

# Few values, so that equal keys come up; strings of all lengths around the 8-byte steps of the kernels.
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": st.integers(-2, 2),
    "INT": st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1]),
    "BIGINT": st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]),
    "DATE": st.sampled_from([dt.date(1969, 1, 1), dt.date(2024, 2, 29)]),
    "TIMESTAMP(3)": st.sampled_from([dt.datetime(1960, 1, 1), dt.datetime(2024, 1, 1, 1, 1, 1, 5000)]),
    "TIMESTAMP(6)": st.sampled_from([dt.datetime(1960, 1, 1), dt.datetime(2024, 1, 1, 1, 1, 1, 5)]),
    "STRING": st.text(alphabet="ab", max_size=10) | st.sampled_from(["x" * 17, "x" * 16, "x" * 16 + "y", "é"]),
    "BYTES": st.binary(max_size=2),
    "BOOLEAN": st.booleans(),
    "DOUBLE": st.sampled_from([0.0, 1.5, float("inf")]),
    "DECIMAL(20, 2)": st.sampled_from([Decimal("1.00"), Decimal("-1.00"), Decimal("123456789012345678.99")]),
}


@st.composite
def key_tables(draw: st.DrawFn) -> tuple[list[str], list[tuple[Any, ...]], list[tuple[Any, ...]], list[int], list[int]]:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    rows = st.lists(st.tuples(*(KINDS[n] for n in names)), max_size=25)
    held, asked = draw(rows), draw(rows)
    partitions = st.integers(0, 2)
    return (
        names,
        held,
        asked,
        draw(st.lists(partitions, min_size=len(held), max_size=len(held))),
        draw(st.lists(partitions, min_size=len(asked), max_size=len(asked))),
    )


def _codes(names: list[str], rows: list[tuple[Any, ...]]) -> KeyCodes:
    types = [parse_type(f"{n} NOT NULL") for n in names]
    columns = [pa.array([r[i] for r in rows], to_arrow(t)) for i, t in enumerate(types)]
    return key_codes(columns, types)


@settings(deadline=None, max_examples=200)
@given(key_tables(), st.booleans())
def test_set_equals_a_dictionary(case: Any, partitioned: bool) -> None:
    names, held, asked, held_in, asked_in = case
    if not partitioned:
        held_in, asked_in = [0] * len(held), [0] * len(asked)
    model: dict[Any, int] = {}
    for i, key in enumerate(zip(held, held_in, strict=True)):
        model.setdefault(key, i)
    keys = KeySet(_codes(names, held), np.array(held_in, np.int32) if partitioned else None)
    assert keys.distinct == len(model)
    assert keys.first.tolist() == [model[k] for k in zip(held, held_in, strict=True)]
    found = keys.find(_codes(names, asked), np.array(asked_in, np.int32) if partitioned else 0)
    assert found.tolist() == [model.get(k, -1) for k in zip(asked, asked_in, strict=True)]
    for p in range(3):
        assert keys.find(_codes(names, asked), p).tolist() == [model.get((k, p), -1) for k in asked]


@settings(deadline=None)
@given(key_tables())
def test_equal_keys_hash_alike(case: Any) -> None:
    names, held, _, _, _ = case
    hashes = hash_codes(_codes(names, held)).tolist()
    by_key = dict(zip(held, hashes, strict=True))
    assert hashes == [by_key[k] for k in held]
    assert len(set(by_key.values())) == len(by_key)


def _model_mix(h: int) -> int:
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    h = (h ^ h >> 27) * 0x94D049BB133111EB % 2**64
    return h ^ h >> 31


def _model_hash(raw: bytes) -> int:
    h = len(raw)
    for at in range(0, len(raw), 8):
        word = raw[at : at + 8]
        h = (h ^ int.from_bytes(word, "little")) * 0x9FB21C651E98DF25 % 2**64
        if len(word) == 8:
            h ^= h >> 32
    return _model_mix(h)


def test_hashes_are_kept_for_ever() -> None:
    """State files hold them: a change here makes every state on disk unreadable and must be a new state version.

    Integers hash as the first output of SplitMix64 seeded with them; 0 and 1 give its published values.
    """
    assert hash_codes(_codes(["BIGINT"], [(0,), (1,), (-1,)])).tolist() == [
        0xE220A8397B1DCDAF,
        0x910A2DEC89025CC1,
        _model_mix((0x9E3779B97F4A7C15 - 1) % 2**64),
    ]
    texts = ["x" * n for n in range(30)] + ["é", "12345678"]
    found = hash_codes(_codes(["STRING"], [(t,) for t in texts])).tolist()
    assert found == [_model_hash(t.encode()) for t in texts]


def test_many_keys_fill_the_table_evenly() -> None:
    n = 50_000
    for codes in (
        KeyCodes(ints=np.arange(n) << 20),
        key_codes([pa.array([f"key-{i}" for i in range(n)])], [parse_type("STRING NOT NULL")]),
    ):
        hashes = hash_codes(codes)
        counts = np.bincount((hashes >> np.uint64(56)).astype(np.int64), minlength=256)
        # 195 expected per bin; 6 standard deviations are 84.
        assert counts.min() > 110
        assert counts.max() < 280
        counts = np.bincount((hashes & np.uint64(255)).astype(np.int64), minlength=256)
        assert counts.min() > 110
        assert counts.max() < 280
        assert KeySet(codes).distinct == n


def test_nulls_and_mixed_kinds_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="null"):
        key_codes([pa.array([1, None])], [parse_type("BIGINT")])
    with pytest.raises(InternalError):
        KeySet(_codes(["INT"], [(1,)])).find(_codes(["STRING"], [("1",)]))


def test_chunks_and_slices_are_seen_as_one_column() -> None:
    whole = pa.array(range(10), pa.int32())
    chunked = pa.chunked_array([whole.slice(0, 3), whole.slice(3, 7)])
    kind = [parse_type("INT NOT NULL")]
    for column in (chunked, whole, chunked.slice(0, 10)):
        found = key_codes([column], kind).ints
        assert found is not None
        assert found.tolist() == list(range(10))
    part = key_codes([whole.slice(4, 3)], kind).ints
    assert part is not None
    assert part.tolist() == [4, 5, 6]
    assert len(key_codes([pa.chunked_array([], pa.int32())], kind)) == 0
