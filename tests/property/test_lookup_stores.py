"""Any store, however made and cut into blocks, answers as a dict does; all batches and cache bounds give the same."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.compacted_row import encode_compacted
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.store import StoreType
from lakeidx.types import DataType
from tests.unit.codec.strategies import atomic_types, tables
from tests.unit.lookup.stores import CODECS, ask, build, factory

keys = st.binary(max_size=20) | st.binary(max_size=12).map(lambda tail: b"a shared prefix/" + tail)
values = st.binary(max_size=30) | st.integers(0, 300).map(lambda n: b"v" * n)


@settings(deadline=None, max_examples=100)
@given(
    st.dictionaries(keys, values, max_size=40), st.lists(keys, max_size=10), st.sampled_from(list(StoreType)),
    st.sampled_from(CODECS), st.sampled_from([16, 64, 4096]), st.sampled_from([None, 0.05]),
    st.sampled_from([0, 64, 1 << 20]), st.randoms(use_true_random=False),
)  # fmt: skip
def test_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    model: dict[bytes, bytes],
    others: list[bytes],
    store_type: StoreType,
    codec: str,
    block_size: int,
    fpp: float | None,
    cache_bytes: int,
    random: Any,
) -> None:
    cache = BlockCache(cache_bytes, working_bytes=cache_bytes)
    made_by = factory(store_type, cache=cache, compression=codec, block_size=block_size, bloom_fpp=fpp)
    entries = sorted(model.items())
    if store_type is StoreType.HASH:
        random.shuffle(entries)
    file = build(made_by, tmp_path_factory.mktemp("store") / "x", entries)
    asked = [*model, *others, *model, *[key + b"\0" for key in model], *[key[:-1] for key in model]]
    random.shuffle(asked)
    reader = made_by.open_reader(file)
    assert ask(reader, asked) == [model.get(key) for key in asked]
    assert ask(reader, []) == []
    assert ask(reader, asked[:3]) == [model.get(key) for key in asked[:3]]
    del reader
    assert cache.used_bytes == 0


@settings(deadline=None, max_examples=100)
@given(
    tables(atomic_types, max_columns=4, max_rows=30), st.sampled_from(list(StoreType)), st.sampled_from([16, 256]),
    st.integers(0, 1000),
)  # fmt: skip
def test_rows(
    tmp_path_factory: pytest.TempPathFactory,
    table: tuple[list[DataType], list[list[Any]]],
    store_type: StoreType,
    block_size: int,
    seed: int,
) -> None:
    types, rows = table
    order = KeyOrder.row_compacted(types)
    made_by = factory(store_type, order=order, block_size=block_size, compression="none")
    distinct = sorted({encode_compacted(row, types) for row in rows}, key=cmp_to_key(order.compare))
    # Every second row is stored, the others are asked for and absent.
    entries = [(key, b"%d" % i) for i, key in enumerate(distinct) if (i + seed) % 2]
    model = dict(entries)
    file = build(made_by, tmp_path_factory.mktemp("store") / "x", entries)
    reader = made_by.open_reader(file)
    assert ask(reader, distinct) == [model.get(key) for key in distinct]
