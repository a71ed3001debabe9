"""The key state against a dictionary: lookups, taking away, expiry, merging of runs, growth, look-alikes, damage."""

from __future__ import annotations

import contextlib
import itertools
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.key_index.keys.codes import KeyCodes
from lakeidx.key_index.state import key_state, shard_runs
from lakeidx.key_index.state.entries import (
    GONE,
    Entries,
    merge_runs,
    newest_rows,
    partition_salt,
    state_hashes,
    state_keys,
    with_prefix,
)
from lakeidx.key_index.state.key_state import KeyState
from lakeidx.key_index.state.manifest import StateManifest, decode_file_names, decode_manifest, encode_manifest
from lakeidx.key_index.state.memory_store import MemoryStore
from lakeidx.key_index.state.run_files import RunFiles
from lakeidx.key_index.state.shard_runs import MAX_RUNS, merged_from


def _ints(values: list[int]) -> np.ndarray:
    return np.array(values, np.int32)


def _table_hash(key: bytes, kinds: int) -> int:
    """A table's hash of a key, with so many values that keys collide."""
    return zlib.crc32(key) % kinds * 0x01010101 & 0x7FFFFFFF


def make_entries(
    keys: list[bytes],
    partition: list[int],
    bucket: list[int],
    *,
    now: int = 1,
    kinds: int = 1 << 20,
    prefix: bool = False,
) -> Entries:
    packed = RowBytes.from_list(keys)
    hashes = state_hashes(_ints([_table_hash(k, kinds) for k in keys]), packed)
    where = _ints(partition)
    return Entries(
        hashes,
        with_prefix(packed, where) if prefix else packed,
        where,
        _ints(bucket),
        np.full(len(keys), now, np.uint32),
    )


def _empty(store: MemoryStore, expected: int = 0, *, is_global: bool = True) -> KeyState:
    return KeyState.empty(RunFiles(store, "s"), table_id="t", scope="s", is_global=is_global, expected_rows=expected)


def _again(state: KeyState) -> KeyState:
    """The state as another process finds it."""
    written = decode_manifest(encode_manifest(state.manifest(7, "token")))
    assert (written.snapshot_id, written.token) == (7, "token")
    assert decode_file_names(encode_manifest(written)) == written.files
    return KeyState(state.files, written, is_global=state.is_global)


def _find(
    state: KeyState, keys: list[bytes], own: list[int], kinds: int, expire_before: int = 0
) -> list[tuple[int, int]]:
    asked = make_entries(keys, own, [0] * len(keys), kinds=kinds)
    partition, bucket = state.lookup(asked.hashes, asked.keys, asked.partition, expire_before=expire_before)
    return list(zip(partition.tolist(), bucket.tolist(), strict=True))


@pytest.mark.slow
@settings(deadline=None, max_examples=120)
@given(
    changes=st.lists(
        st.lists(
            st.tuples(st.binary(max_size=11), st.integers(-1, 3), st.integers(0, 5)),
            max_size=25,
            unique_by=lambda e: e[0],
        ),
        max_size=14,
    ),
    others=st.lists(st.binary(max_size=11), max_size=20),
    own=st.sampled_from([-2, 0, 1, 2, 3]),
    expire_before=st.integers(0, 16),
    expected=st.sampled_from([0, 3 * key_state.SHARD_ROWS]),
    kinds=st.sampled_from([1, 3, 1 << 20]),
)
def test_state_equals_a_dictionary(
    changes: list[list[tuple[bytes, int, int]]],
    others: list[bytes],
    own: int,
    expire_before: int,
    expected: int,
    kinds: int,
) -> None:
    """One change a second; entries of before `expire_before` count as gone, whenever their runs were merged.

    A key that is not there may be answered as one of the same hash in the row's own partition; nothing else may be wrong.
    """
    state = _empty(MemoryStore(), expected)
    model: dict[bytes, tuple[int, int, int]] = {}
    for now, change in enumerate(changes, start=1):
        state.write(
            make_entries(
                [k for k, _, _ in change], [p for _, p, _ in change], [b for _, _, b in change], now=now, kinds=kinds
            )
        )
        model.update({k: (p, b, now) for k, p, b in change})
    state = _again(state)
    places: dict[tuple[int, int], set[int]] = {}
    for k, (p, b, now) in model.items():
        if p != GONE and now >= expire_before:
            places.setdefault((_table_hash(k, kinds), p), set()).add(b)
    asked = list(model) + others
    found = _find(state, asked, [own] * len(asked), kinds, expire_before)
    for key, (p, b) in zip(asked, found, strict=True):
        held = model.get(key, (GONE, -1, 0))
        alive = held[0] != GONE and held[2] >= expire_before
        if not alive and p == own:
            # A key of this hash is there, and in a table all keys of a hash share the partition's bucket.
            assert b in places[_table_hash(key, kinds), own]
        else:
            assert (p, b) == ((held[0], held[1]) if alive else (GONE, -1))


@settings(deadline=None, max_examples=60)
@given(
    changes=st.lists(
        st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 3)), max_size=25, unique=True),
        max_size=10,
    ),
    kinds=st.sampled_from([1, 1 << 20]),
)
def test_keys_of_partitions_are_distinguished(changes: list[list[tuple[bytes, int]]], kinds: int) -> None:
    """Not global: the key of one partition is another than that of the next; a hash has one bucket in a partition."""
    state = _empty(MemoryStore(), is_global=False)
    known = set()
    for change in changes:
        buckets = [_table_hash(k, kinds) % 5 for k, _ in change]
        state.write(_local([k for k, _ in change], [p for _, p in change], buckets, kinds))
        known |= set(change)
    asked = [(k, p) for k in {k for k, _ in known} for p in range(4)]
    entries = _local([k for k, _ in asked], [p for _, p in asked], [0] * len(asked), kinds)
    partition, bucket = state.lookup(entries.hashes, entries.keys, entries.partition)
    hashes = {(p, _table_hash(k, kinds)) for k, p in known}
    for (k, p), found, b in zip(asked, partition.tolist(), bucket.tolist(), strict=True):
        there = (p, _table_hash(k, kinds)) in hashes
        assert (found, b) == ((p, _table_hash(k, kinds) % 5) if there else (GONE, -1))


def _local(keys: list[bytes], partition: list[int], bucket: list[int], kinds: int) -> Entries:
    made = make_entries(keys, partition, bucket, kinds=kinds, prefix=True)
    salts = np.array([partition_salt(bytes([p])) for p in partition], np.uint32)
    hashes = state_hashes(_ints([_table_hash(k, kinds) for k in keys]), RowBytes.from_list(keys), salts)
    return Entries(hashes, made.keys, made.partition, made.bucket, made.written)


def test_counts_follow_the_keys() -> None:
    state = _empty(MemoryStore())
    state.write(make_entries([b"a", b"b", b"c"], [0, 0, 1], [0, 1, 0]))
    assert state.bucket_counts() == {(0, 0): 1, (0, 1): 1, (1, 0): 1}
    state.write(make_entries([b"a", b"b", b"d"], [1, GONE, 0], [0, 0, 0], now=2))
    assert state.bucket_counts() == {(0, 0): 1, (1, 0): 2}
    # What was there before may be told; of a key that comes twice the last place counts.
    was = _ints([1, 1, GONE]), _ints([0, 0, -1])
    state.write(make_entries([b"a", b"a", b"e"], [0, 2, 2], [0, 5, 5], now=3), was=was)
    assert state.bucket_counts() == {(0, 0): 1, (1, 0): 1, (2, 5): 2}
    assert state.bucket_counts(expire_before=3) == {(2, 5): 2}
    assert _again(state).bucket_counts() == state.bucket_counts()


def test_shards_grow_with_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_state, "SHARD_ROWS", 16)
    state = _empty(MemoryStore())
    model = {}
    for now in range(1, 30):
        keys = [f"k{now * 7 + i}".encode() for i in range(20)]
        partition = [i % 3 - 1 for i in range(20)]
        state.write(make_entries(keys, partition, [now] * 20, now=now))
        model.update({k: (p, now if p >= 0 else -1) for k, p in zip(keys, partition, strict=True)})
    assert state.manifest(1, "t").bits >= 2
    found = _find(_again(state), list(model), [-2] * len(model), 1 << 20)
    assert found == list(model.values())
    assert sum(state.bucket_counts().values()) == sum(p >= 0 for p, _ in model.values())


def test_loading_writes_each_key_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs stay apart until the end; then every shard has one, and keys that came twice count once."""
    monkeypatch.setattr(shard_runs, "_FILE_BYTES", 1)
    state = _empty(MemoryStore(), 3 * key_state.SHARD_ROWS)
    state.start_load()
    for start in (0, 50, 100):
        keys = [b"%d" % k for k in range(start, start + 100)]
        state.write(make_entries(keys, [0] * 100, [k % 3 for k in range(start, start + 100)]))
    state.finish_load()
    assert {len(runs) for runs in state.manifest(1, "t").shards} <= {0, 1}
    assert state.bucket_counts() == {(0, b): len(range(b, 200, 3)) for b in range(3)}
    assert _find(state, [b"%d" % k for k in range(200)], [0] * 200, 1 << 20) == [(0, k % 3) for k in range(200)]


def test_merged_runs_are_few() -> None:
    state = _empty(MemoryStore())
    keys = state_keys(KeyCodes(ints=np.arange(200)))
    hashes = state_hashes(np.arange(200, dtype=np.int32) * 1_000_003, keys)
    for now in range(1, 40):
        part = slice(0, 200 if now == 1 else 5)
        n = len(hashes[part])
        place = np.zeros(n, np.int32), np.full(n, now, np.int32)
        state.write(Entries(hashes[part], keys.slice(0, n), *place, np.full(n, now, np.uint32)))
        for runs in state.manifest(1, "t").shards:
            sizes = [ref.entries for ref in runs]
            assert all(a >= 2 * sum(sizes[i + 1 :]) for i, a in enumerate(sizes))
    assert state.lookup(hashes, keys, np.zeros(200, np.int32))[1].tolist() == [39] * 5 + [1] * 195


@given(st.lists(st.integers(1, 1000), max_size=20), st.integers(1, 1000))
def test_sizes_of_runs_halve(sizes: list[int], new: int) -> None:
    runs: list[int] = []
    for size in [*sizes, new]:
        start = merged_from(runs, size)
        runs = [*runs[:start], sum(runs[start:]) + size]
        assert len(runs) <= MAX_RUNS
        assert all(a >= 2 * b for a, b in itertools.pairwise(runs)) or len(runs) == 1


def test_sweep_forgets_what_was_not_written_again() -> None:
    state = _empty(MemoryStore())
    keys = [b"%d" % k for k in range(100)]
    state.write(make_entries(keys, [0] * 100, [k % 4 for k in range(100)]))
    since = state.start_sweep()
    # Many writes: runs must not be merged before the sweep, or old entries would pass for confirmed ones.
    for now in range(2, 12):
        state.write(make_entries(keys[:40], [0] * 40, [k % 4 for k in range(40)], now=now))
    state.sweep({(0, 1), (0, 3), (7, 7)}, since)
    wanted = [(0, i % 4) if i < 40 or i % 4 in (0, 2) else (GONE, -1) for i in range(100)]
    assert _find(state, keys, [-2] * 100, 1 << 20) == wanted
    assert state.rows == sum(state.bucket_counts().values()) == sum(p == 0 for p, _ in wanted)


def test_shards_can_be_written_elsewhere() -> None:
    """What a task does with its shard pickles, and changes nothing that is there."""
    store = MemoryStore()
    state = _empty(store)
    state.write(make_entries([b"a", b"b"], [0, 0], [1, 2]))
    before = dict(store._files)
    (runs,) = state.manifest(1, "t").shards
    new = make_entries([b"b", b"c"], [1, 1], [7, 8], now=2)
    new = new.take(newest_rows(new.hashes, new.keys))
    done = shard_runs.ShardWriter(state.files, 0, 4).append(0, runs, new)
    assert done.kept == 0
    assert done.counts == {(0, 1): 1, (1, 7): 1, (1, 8): 1}
    assert store._files == before


@pytest.mark.slow
def test_damage_and_loss_are_named() -> None:
    """A flipped bit or a cut anywhere in a file is an error, or in a part that the answer does not need; never a wrong answer."""
    store = MemoryStore()
    state = _empty(store)
    keys = [b"%d" % k for k in range(30)]
    state.write(make_entries(keys, [k % 2 for k in range(30)], [k % 3 for k in range(30)]))
    wanted = [(k % 2, k % 3) for k in range(30)]
    ((path, good),) = store._files.items()

    def check() -> None:
        fresh = KeyState(RunFiles(store, "s"), state.manifest(1, "t"), is_global=True)
        with contextlib.suppress(CorruptFileError):
            # In its own partition nothing but blocks is read; in another one the keys are, too.
            assert _find(fresh, keys, [k % 2 for k in range(30)], 1 << 20) == wanted
            assert _find(fresh, keys, [5] * 30, 1 << 20) == wanted
            with pytest.raises(CorruptFileError):
                fresh.bucket_counts(expire_before=1)

    for at in range(0, len(good), 3):
        store._files[path] = good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :]
        check()
        store._files[path] = good[:at]
        check()
    del store._files[path]
    with pytest.raises(NotFoundError):
        _find(KeyState(RunFiles(store, "s"), state.manifest(1, "t"), is_global=True), keys, [0] * 30, 1 << 20)


def test_a_single_run_is_as_it_is_but_for_what_is_too_old_and_gone() -> None:
    written, place = np.array([5, 9, 9], np.uint32), np.array([0, GONE, 1], np.int32)
    run = Entries(np.arange(3, dtype=np.uint64), RowBytes.from_list([b"a", b"b", b"c"]), place, place, written)
    assert merge_runs([run], expire_before=0, drop_gone=False) is run
    assert merge_runs([run], expire_before=0, drop_gone=True).keys.to_list() == [b"a", b"c"]
    assert merge_runs([run], expire_before=6, drop_gone=False).keys.to_list() == [b"b", b"c"]


def test_keys_of_one_hash_are_distinguished_when_merged() -> None:
    """Hashes made equal by hand: the bytes decide."""
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


_KEYS = st.dictionaries(
    st.sampled_from([b"%d" % k for k in range(9)] + [b"x" * k for k in range(9)]), st.integers(-1, 2)
)


@given(st.lists(_KEYS, min_size=1, max_size=5), st.sampled_from([1, 3, 1 << 20]), st.booleans(), st.integers(0, 3))
def test_merged_runs_have_the_last_of_each_key(
    contents: list[dict[bytes, int]], kinds: int, drop_gone: bool, expire_before: int
) -> None:
    """Against a dictionary, with hashes that many keys share, the least and the greatest among them."""
    runs: list[Entries] = []
    last: dict[bytes, tuple[int, int]] = {}
    for now, content in enumerate(contents):
        packed = RowBytes.from_list(list(content))
        step = ((1 << 64) - 1) // max(1, kinds - 1)
        hashes = np.array([zlib.crc32(k) % kinds * step for k in content], np.uint64)
        place = _ints(list(content.values()))
        run = Entries(hashes, packed, place, place, np.full(len(content), now, np.uint32))
        runs.append(run.take(newest_rows(run.hashes, run.keys)))
        last |= {key: (place, now) for key, place in content.items()}
    merged = merge_runs(runs, expire_before=expire_before, drop_gone=drop_gone)
    wanted = {k: (p, now) for k, (p, now) in last.items() if now >= expire_before and not (drop_gone and p == GONE)}
    found = zip(merged.keys.to_list(), merged.partition.tolist(), merged.written.tolist(), strict=True)
    assert {k: (p, now) for k, p, now in found} == wanted
    assert len(merged) == len(wanted)
    assert (merged.hashes[1:] >= merged.hashes[:-1]).all()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', '{"version": 2, "files": ["../x"]}'])
def test_manifests_that_are_none(text: str) -> None:
    with pytest.raises(CorruptFileError):
        decode_manifest(text.encode(), "c")
    with pytest.raises(CorruptFileError):
        decode_file_names(text.encode(), "c")


def test_manifests_of_wrong_shape() -> None:
    good = encode_manifest(StateManifest(table_id="t", scope="s", bits=1, shards=((), ())))
    assert decode_manifest(good).bits == 1
    assert decode_file_names(good) == set()
    with pytest.raises(CorruptFileError):
        decode_manifest(good.replace(b'"bits":1', b'"bits":2'))
