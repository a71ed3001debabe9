from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.hash_store import decode_context, encode_context
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.hash_store.reader import HashLookupStoreReader
from lakeidx.lookup.hash_store.writer import context_path
from lakeidx.lookup.store import StoreType
from tests.kit.scalar_twins import page_checksums
from tests.unit.lookup.stores import CODECS, PLAIN, ask, build, factory, show

ENTRIES = [(b"key %d" % i, b"v%d" % i * (i % 30)) for i in range(60)] + [(b"%d" % i, b"") for i in range(10, 20)]


@pytest.mark.parametrize("codec", CODECS)
def test_one_large_value_asked_for_many_times(codec: str, tmp_path: Path) -> None:
    # The mean value is small: the answer outgrows the first guess of its size.
    made_by = factory(StoreType.HASH, compression=codec, block_size=1024)
    entries = [*ENTRIES, (b"large", b"0123456789" * 2000)]
    reader = made_by.open_reader(build(made_by, tmp_path / "x", entries))
    asked = [b"large", b"key 7"] * 200
    assert ask(reader, asked) == [dict(entries)[key] for key in asked]


def test_pages_are_checked_as_they_are_used(tmp_path: Path) -> None:
    made_by = factory(StoreType.HASH, compression="none", block_size=64, bloom_fpp=None)
    file = build(made_by, tmp_path / "x", ENTRIES)
    # Damage in the value of one key is no matter to the others until its page is used.
    good = Path(file.path).read_bytes()
    at = good.rindex(b"v29v29")
    Path(file.path).write_bytes(good[:at] + b"V" + good[at + 1 :])
    reader = made_by.open_reader(file)
    assert ask(reader, [b"key 1"]) == [b"v1"]
    for _ in range(2):
        with pytest.raises(CorruptFileError) as caught:
            ask(reader, [b"key 29"])
        assert caught.value.offset == at // 64 * 64
    with pytest.raises(CorruptFileError):
        ask(reader, [key for key, _ in ENTRIES])


def test_a_batch_larger_than_the_cache_goes_page_by_page(tmp_path: Path) -> None:
    cache = BlockCache(512, working_bytes=512)
    made_by = factory(StoreType.HASH, cache=cache, compression="zstd", block_size=256)
    entries = [(b"%05d" % i, b"v" * (i % 40)) for i in range(1000)]
    file = build(made_by, tmp_path / "x", entries)
    reader = made_by.open_reader(file)
    found, values = reader.lookup_many(RowBytes.from_list([key for key, _ in entries]))
    assert found.all()
    assert values.to_list() == [value for _, value in entries]
    # Slots, sizes and values of a page are needed in turn: a few rounds, not a load for each key.
    assert cache.loads < 4 * show(file)["pages"]
    assert cache.used_bytes <= 512


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.sampled_from(CODECS), st.data())
def test_damage_that_no_checksum_covers_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, codec: str, data: st.DataObject
) -> None:
    # Under right checksums: any answer or CorruptFileError, but nothing worse.
    folder = tmp_path_factory.mktemp("store")
    made_by = factory(StoreType.HASH, compression=codec, block_size=64, bloom_fpp=None)
    file = build(made_by, folder / "x", ENTRIES)
    context = decode_context(context_path(file.path).read_bytes())
    changed = bytearray(Path(file.path).read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    Path(file.path).write_bytes(changed)
    context = replace(context, page_checksums=page_checksums(bytes(changed), context.page_sizes))
    context_path(file.path).write_bytes(encode_context(context))
    asked = [key for key, _ in ENTRIES] + [b"", b"nothing"]
    for working_bytes in (1 << 20, 64):
        cache = BlockCache(working_bytes, working_bytes=working_bytes)
        try:
            ask(HashLookupStoreReader(file.path, order=PLAIN, cache=cache), asked)
        except CorruptFileError as e:
            assert e.path == file.path  # noqa: PT017


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_contexts_that_are_wrong_under_a_right_checksum_never_crash(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("store")
    made_by = factory(StoreType.HASH, compression="none", block_size=64)
    file = build(made_by, folder / "x", ENTRIES)
    path = context_path(file.path)
    raw = bytearray(path.read_bytes()[:-4])
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(6, 120))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(raw) + crc32(raw).to_bytes(4, "little"))
    try:
        reader = made_by.open_reader(file.path)
        ask(reader, [key for key, _ in ENTRIES] + [b"", b"nothing"])
    except CorruptFileError as e:
        assert e.path in (file.path, str(path))  # noqa: PT017


@pytest.mark.parametrize("length", range(16))
def test_an_empty_value_behind_the_last_byte_of_a_full_page(tmp_path: Path, length: int) -> None:
    """It lies at a place that is in no page."""
    entries = [(b"a", b"v" * length), (b"b", b"")]
    cache = BlockCache(1 << 20, working_bytes=1 << 20)
    made_by = factory(StoreType.HASH, cache=cache, compression="zstd", block_size=16)
    reader = made_by.open_reader(build(made_by, tmp_path / "x", entries))
    assert ask(reader, [b"a", b"b", b"c"]) == [b"v" * length, b"", None]
    assert ask(reader, [b"b"]) == [b""]
