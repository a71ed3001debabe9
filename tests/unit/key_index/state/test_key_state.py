"""The key state against a dictionary: lookups, taking away, expiry, merging of runs, growth, damage, unfinished changes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.key_index.keys.codes import KeyCodes
from lakeidx.key_index.state import key_state
from lakeidx.key_index.state.key_state import KeyState, StateMeta
from lakeidx.key_index.state.pages import (
    GONE,
    Entries,
    decode_block,
    encode_block,
    hash_rows,
    merge_runs,
    page_of,
    probe_block,
    state_keys,
    take_rows,
)
from lakeidx.key_index.state.store import MemoryStore, RocksStore

KEYS = st.binary(max_size=11)


def _ints(values: list[int]) -> np.ndarray:
    return np.array(values, np.int32)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.lists(st.tuples(KEYS, st.integers(-1, 3), st.integers(0, 5)), max_size=25, unique_by=lambda e: e[0]),
        max_size=14,
    ),
    st.lists(KEYS, max_size=20),
    st.integers(0, 16),
    st.integers(0, 2000),
)
def test_state_equals_a_dictionary(
    changes: list[list[tuple[bytes, int, int]]], others: list[bytes], expire_before: int, expected_rows: int
) -> None:
    """One change a second; entries of before `expire_before` count as gone, whenever their runs were merged."""
    state = KeyState.create(MemoryStore(), StateMeta("t", "s"), expected_rows=expected_rows)
    model: dict[bytes, tuple[int, int, int]] = {}
    for now, change in enumerate(changes, start=1):
        keys = RowBytes.from_list([k for k, _, _ in change])
        state.write(keys, _ints([p for _, p, _ in change]), _ints([b for _, _, b in change]), now=now)
        model.update({k: (p, b, now) for k, p, b in change})
    state.commit()
    asked = list(model) + others
    partition, bucket = state.lookup(RowBytes.from_list(asked), expire_before=expire_before)
    for key, p, b in zip(asked, partition.tolist(), bucket.tolist(), strict=True):
        held = model.get(key, (GONE, -1, 0))
        alive = held[0] != GONE and held[2] >= expire_before
        assert (p, b) == ((held[0], held[1]) if alive else (GONE, -1))
    counts: dict[tuple[int, int], int] = {}
    for p, b, written in model.values():
        if p != GONE and written >= expire_before:
            counts[p, b] = counts.get((p, b), 0) + 1
    assert state.bucket_counts(expire_before=expire_before) == counts


def test_pages_grow_with_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_state, "_GROW_ABOVE", 4)
    state = KeyState.create(MemoryStore(), StateMeta("t", "s"), expected_rows=0)
    before = state.meta.bits
    model = {}
    for now in range(1, 30):
        keys = [f"k{now * 7 + i}".encode() for i in range(20)]
        partition = [i % 3 - 1 for i in range(20)]
        state.write(RowBytes.from_list(keys), _ints(partition), _ints([now] * 20), now=now)
        model.update({k: (p, now if p >= 0 else -1) for k, p in zip(keys, partition, strict=True)})
    state.commit()
    assert state.meta.bits >= before + 2
    partition_of, bucket_of = state.lookup(RowBytes.from_list(list(model)))
    assert list(zip(partition_of.tolist(), bucket_of.tolist(), strict=True)) == list(model.values())


def test_merged_runs_are_few(tmp_path: Path) -> None:
    store = MemoryStore()
    state = KeyState.create(store, StateMeta("t", "s"), expected_rows=0)
    keys = state_keys(KeyCodes(ints=np.arange(200)))
    for now in range(1, 30):
        state.write(keys, np.zeros(200, np.int32), np.full(200, now, np.int32), now=now)
    assert len(list(store.keys(b"P", b"Q"))) <= 5 << state.meta.bits
    assert state.lookup(keys)[1].tolist() == [29] * 200
    assert state.meta.rows <= 5 * 200


def test_sweep_forgets_what_was_not_written_again() -> None:
    state = KeyState.create(MemoryStore(), StateMeta("t", "s"), expected_rows=0)
    keys = state_keys(KeyCodes(ints=np.arange(100)))
    state.write(keys, np.zeros(100, np.int32), np.arange(100, dtype=np.int32) % 4, now=1)
    since = state.start_sweep()
    # Many writes: runs must not be merged before the sweep, or old entries would pass for confirmed ones.
    for now in range(2, 12):
        state.write(keys.slice(0, 40), np.zeros(40, np.int32), np.arange(40, dtype=np.int32) % 4, now=now)
    state.sweep({(0, 1), (0, 3), (7, 7)}, since)
    partition, bucket = state.lookup(keys)
    for i in range(100):
        assert (partition[i], bucket[i]) == ((0, i % 4) if i < 40 or i % 4 in (0, 2) else (GONE, -1))
    assert state.meta.rows == int((partition == 0).sum())


@pytest.mark.parametrize("kind", ["memory", "rocks"])
def test_a_state_is_found_again_only_when_complete(tmp_path: Path, kind: str) -> None:
    keys = state_keys(KeyCodes(ints=np.arange(50)))

    def open_store() -> Any:
        return memory if kind == "memory" else RocksStore(tmp_path / "db", cache_bytes=1 << 20)

    memory = MemoryStore()
    store = open_store()
    assert KeyState.load(store) is None
    state = KeyState.create(store, StateMeta("t", "s"), expected_rows=10)
    state.write(keys, np.zeros(50, np.int32), np.arange(50, dtype=np.int32), now=5)
    assert KeyState.load(store) is None
    state.meta.snapshot_id, state.meta.files = 7, {"f": [0, 3]}
    assert state.partition_number(b"\x01") == 0
    assert state.partition_number(b"\x02") == 1
    assert state.partition_number(b"\x01") == 0
    state.commit()
    if kind == "rocks":
        store.sync()
        store.close()
        store = open_store()
    again = KeyState.load(store)
    assert again is not None
    assert (again.meta.snapshot_id, again.meta.files, again.meta.partitions) == (7, {"f": [0, 3]}, ["01", "02"])
    assert again.lookup(keys)[1].tolist() == list(range(50))
    again.begin()
    assert KeyState.load(store) is None
    if kind == "rocks":
        store.close()


def test_checkpoint_is_a_copy_of_its_moment(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "db", cache_bytes=1 << 20)
    state = KeyState.create(store, StateMeta("t", "s"), expected_rows=10)
    keys = state_keys(KeyCodes(ints=np.arange(50)))
    state.write(keys, np.zeros(50, np.int32), np.arange(50, dtype=np.int32), now=5)
    state.commit()
    store.checkpoint(tmp_path / "copy")
    state.begin()
    state.write(keys, np.full(50, GONE, np.int32), np.zeros(50, np.int32), now=6)
    state.commit()
    store.close()
    copy = RocksStore(tmp_path / "copy", cache_bytes=1 << 20)
    held = KeyState.load(copy)
    assert held is not None
    assert held.lookup(keys)[0].tolist() == [0] * 50
    copy.close()


def test_a_directory_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "CURRENT").write_text("nonsense\n")
    with pytest.raises(CorruptFileError):
        RocksStore(tmp_path / "db", cache_bytes=1 << 20)


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"x": 1}'])
def test_damaged_description(raw: bytes) -> None:
    store = MemoryStore()
    store.write([(b"M", raw)])
    with pytest.raises(CorruptFileError):
        KeyState.load(store)


def _block(keys: list[bytes], partition: list[int] | None = None) -> Entries:
    packed = RowBytes.from_list(keys)
    hashes = hash_rows(packed)
    order = np.argsort(hashes, kind="stable")
    n = len(keys)
    where = _ints(partition or [1] * n)
    return Entries(hashes, packed, where, _ints(list(range(n))), np.full(n, 9, np.uint32)).take(order)


def test_damaged_blocks() -> None:
    good = encode_block(_block([b"a", b"bb", b"", b"dddd"]))
    back = decode_block(good)
    assert encode_block(back) == good
    for end in range(len(good)):
        with pytest.raises(CorruptFileError):
            decode_block(good[:end])
        keys = RowBytes.from_list([b"a", b"bb", b"", b"dddd"])
        answers = _ints([GONE] * 4), _ints([0] * 4)
        with contextlib.suppress(CorruptFileError):
            probe_block(good[:end], hash_rows(keys), keys, np.argsort(hash_rows(keys)), *answers, expire_before=0)
    with pytest.raises(CorruptFileError):
        decode_block(good + b"x")
    for at in range(len(good)):
        for bit in range(8):
            damaged = bytearray(good)
            damaged[at] ^= 1 << bit
            with contextlib.suppress(CorruptFileError):
                decode_block(bytes(damaged))
            keys = RowBytes.from_list([b"a", b"zz", b"dddd", b""])
            partition, bucket = _ints([GONE] * 4), _ints([0] * 4)
            rows = np.argsort(hash_rows(keys))
            with contextlib.suppress(CorruptFileError):
                probe_block(bytes(damaged), hash_rows(keys), keys, rows, partition, bucket, expire_before=0)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(1, 20))
def test_pages_are_the_hashes_first_bits(values: list[int], bits: int) -> None:
    assert page_of(np.array(values, np.uint64), bits).tolist() == [v >> (64 - bits) for v in values]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=9), max_size=20), st.data())
def test_take_rows(rows: list[bytes], data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=20)) if rows else []
    taken = take_rows(RowBytes.from_list(rows), np.array(order, np.int64))
    assert taken.to_list() == [rows[i] for i in order]


def test_keys_of_one_hash_are_told_apart() -> None:
    """Hashes made equal by hand: the bytes decide, in a block and when runs are merged."""
    runs = []
    for number, keys in enumerate(([b"a", b"b", b"c"], [b"b", b"d"])):
        packed = RowBytes.from_list(keys)
        same = np.full(len(keys), 77, np.uint64)
        place = np.full(len(keys), number, np.int32)
        runs.append(Entries(same, packed, place, place, np.full(len(keys), 9, np.uint32)))
    merged = merge_runs(runs, expire_before=0, drop_gone=True)
    assert dict(zip(merged.keys.to_list(), merged.partition.tolist(), strict=True)) == {
        b"a": 0, b"b": 1, b"c": 0, b"d": 1,
    }  # fmt: skip
    asked = RowBytes.from_list([b"c", b"b", b"x"])
    partition, bucket = _ints([GONE] * 3), _ints([-1] * 3)
    hashes = np.full(3, 77, np.uint64)
    probe_block(encode_block(merged), hashes, asked, np.arange(3), partition, bucket, expire_before=0)
    assert partition.tolist() == [0, 1, GONE]
