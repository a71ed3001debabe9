"""Blocks stored in sections: written, read, found damaged. Sections are small here, so that few bytes have several."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.containers.compress import BlockCompressor
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup import sst_sections
from lakeidx.format.lookup.sst import (
    FOOTER_SIZE,
    decode_body,
    decode_footer,
    decode_index_value,
    describe_sst,
    read_block,
)
from lakeidx.format.lookup.sst_sections import Section
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.sort_store import section_writer
from lakeidx.lookup.sort_store.file import SortFile
from lakeidx.lookup.sort_store.places import Sections
from lakeidx.lookup.store import LookupFile, StoreType
from tests.unit.lookup import models
from tests.unit.lookup.stores import PLAIN, ask, build, factory

Entries = list[tuple[bytes, bytes]]
ABSENT = [b"", b"0", b"0000x", b"00017", b"zzz"]
#: Texts, which zstd makes small, and noise, which it does not.
values = st.one_of(st.integers(0, 40).map(lambda n: b"text " * n), st.binary(max_size=60))


@pytest.fixture(autouse=True, scope="module")
def _small_sections() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sst_sections, "SECTION_BYTES", 200)
        yield


def made(codec: str = "zstd", **options: Any) -> LookupStoreFactory:
    return factory(StoreType.SORT, compression=codec, **{"block_size": 1000, **options})


def entries_of(seed: int, n: int) -> Entries:
    rng = random.Random(seed)
    return [(b"%05d" % (3 * i), b"text " * rng.randrange(30) + rng.randbytes(rng.randrange(9))) for i in range(n)]


def places(file: LookupFile) -> Sections:
    opened = SortFile(file.path, order=PLAIN, cache=BlockCache(), checksum=file.checksum)._places
    assert isinstance(opened, Sections)
    return opened


def blocks(path: str) -> list[bytes]:
    """The bodies of the blocks as a reader of no sections has them, by footer and block index."""
    data = Path(path).read_bytes()
    index = read_block(memoryview(data), decode_footer(data[-FOOTER_SIZE:], len(data)).index)
    return [bytes(read_block(memoryview(data), decode_index_value(value))) for _, value in decode_body(index)]


@settings(deadline=None)
@given(st.lists(values, max_size=60), st.sampled_from([None, 0.05]), st.booleans())
def test_entries_come_back(
    tmp_path_factory: pytest.TempPathFactory, of_keys: list[bytes], fpp: float | None, known: bool
) -> None:
    entries = [(b"%05d" % (3 * i), value) for i, value in enumerate(of_keys)]
    made_by = made(bloom_fpp=fpp)
    file = build(made_by, tmp_path_factory.mktemp("s") / "x", entries)
    with made_by.open_reader(file if known else file.path) as reader:
        assert ask(reader, [k for k, _ in entries] + ABSENT) == [v for _, v in entries] + [None] * len(ABSENT)
        assert [e for part in reader.scan() for e in zip(part.keys, part.values, strict=True)] == entries
        assert reader.verify() == len(entries)
    # The blocks are those that a file without compression has.
    plain = build(made("none", bloom_fpp=fpp), tmp_path_factory.mktemp("s") / "y", entries)
    assert Path(plain.path).read_bytes() == models.sst_file(
        entries, 1000, (len(entries), fpp) if fpp and entries else None
    )
    assert blocks(file.path) == blocks(plain.path)


def test_only_the_sections_of_the_keys_are_decompressed(tmp_path: Path) -> None:
    cache = BlockCache()
    made_by = made(cache=cache, block_size=10_000, bloom_fpp=None)
    entries = [(b"%05d" % i, b"text " * 9) for i in range(2000)]
    with made_by.open_reader(build(made_by, tmp_path / "x", entries)) as reader:
        assert ask(reader, [b"01000"]) == [b"text " * 9]
        assert cache.stats().blocks == 1
        assert 150 < cache.stats().used_bytes < 300


def test_a_file_without_a_block_of_several_sections_has_no_section_index(tmp_path: Path) -> None:
    short = [(b"%05d" % i, b"text " * 4) for i in range(9)]
    data = Path(build(made(bloom_fpp=None), tmp_path / "x", short).path).read_bytes()
    footer = decode_footer(data[-FOOTER_SIZE:], len(data))
    described = describe_sst(memoryview(data))
    last = described["blocks"][-1]
    assert last["offset"] + last["size"] + 5 == footer.index.offset
    assert "section_index" not in described


def test_the_section_index_is_described(tmp_path: Path) -> None:
    file = build(made(), tmp_path / "x", entries_of(6, 50))
    data = Path(file.path).read_bytes()
    described = describe_sst(memoryview(data))
    last, index = described["blocks"][-1], described["section_index"]
    assert index["offset"] == last["offset"] + last["size"] + 5
    assert index["offset"] + index["size"] + 5 == described["footer"]["bloom_offset"]
    assert index["sections"] == len(places(file).starts)


def test_blocks_that_zstd_does_not_make_smaller_are_one_section(tmp_path: Path) -> None:
    noise = random.Random(1)
    texts, noises = entries_of(1, 40), [(b"%05d" % (3 * i), noise.randbytes(90)) for i in range(40, 80)]
    made_by = made()
    file = build(made_by, tmp_path / "x", [*texts, *noises, (b"99999", b"text " * 50)])
    sections = places(file)
    entries = sections._entries.tolist()
    assert max(entries) > 1
    assert 0 in entries
    assert len(sections.starts) > len(sections.blocks.starts)
    with made_by.open_reader(file) as reader:
        assert reader.verify() == 81
        assert ask(reader, [noises[7][0], texts[3][0]]) == [noises[7][1], texts[3][1]]


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_every_flipped_byte_is_found(tmp_path: Path, known: bool) -> None:
    entries = entries_of(2, 30)
    made_by = made()
    file = build(made_by, tmp_path / "x", entries)
    path = Path(file.path)
    good = path.read_bytes()
    footer = decode_footer(good[-FOOTER_SIZE:], len(good))
    # Another number of keys in the footer with the same number of probes changes no answer.
    skipped = () if known else range(len(good) - FOOTER_SIZE + 12, len(good) - FOOTER_SIZE + 20)
    assert len(places(file).starts) > len(places(file).blocks.starts) > 1
    assert footer.bloom is not None
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :])
        if at not in skipped:
            with pytest.raises(CorruptFileError) as caught, made_by.open_reader(file if known else file.path) as reader:
                ask(reader, [k for k, _ in entries])
            assert caught.value.path == file.path
            assert caught.value.offset is not None


@pytest.mark.slow
def test_every_cut_and_every_missing_or_doubled_byte_is_found(tmp_path: Path) -> None:
    entries = entries_of(3, 20)
    made_by = made()
    file = build(made_by, tmp_path / "x", entries)
    path = Path(file.path)
    good = path.read_bytes()
    for at in range(len(good)):
        for bad in (good[:at], good[:at] + good[at + 1 :], good[:at] + good[at : at + 1] + good[at:]):
            path.write_bytes(bad)
            with pytest.raises(CorruptFileError), made_by.open_reader(file.path) as reader:
                ask(reader, [k for k, _ in entries])


@pytest.mark.parametrize("more", [-1, 1])
def test_a_section_of_another_number_of_entries_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    encode = sst_sections.encode_section
    wrong = lambda s: encode(s._replace(entries=s.entries and s.entries + more))  # noqa: E731
    monkeypatch.setattr(section_writer, "encode_section", wrong)
    entries = entries_of(4, 30)
    made_by = made()
    file = build(made_by, tmp_path / "x", entries)
    with made_by.open_reader(file) as reader, pytest.raises(CorruptFileError, match="of the section's") as caught:
        ask(reader, [entries[0][0]])
    assert caught.value.offset == 0


def test_a_block_that_is_cut_elsewhere_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode, moved = sst_sections.encode_section, iter([1, -1])

    def wrong(section: Section) -> bytes:
        by = next(moved, 0)
        return encode(section._replace(range_bytes=section.range_bytes + by))

    made_by = made(block_size=300)
    monkeypatch.setattr(section_writer, "encode_section", wrong)
    monkeypatch.setattr(section_writer.SectionWriter, "index", property(lambda writer: writer._index))
    file = build(made_by, tmp_path / "x", [(b"%d" % i, b"text " * 60) for i in range(3)])
    with pytest.raises(CorruptFileError, match="a block does not begin with a section"):
        made_by.open_reader(file)


def test_positions_that_are_wrong_show_in_a_verification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Java goes by the positions of a block, lookups here by the section index.
    compress = BlockCompressor.compress_parts

    def wrong(compressor: BlockCompressor, block: memoryview, bounds: list[int]) -> list[bytes]:
        assert bytes(block[bounds[-2] :][:4]) == bytes(4)
        return compress(
            compressor, memoryview(bytes(block[: bounds[-2]]) + b"\1" + bytes(block[bounds[-2] + 1 :])), bounds
        )

    monkeypatch.setattr(BlockCompressor, "compress_parts", wrong)
    entries = entries_of(5, 30)
    made_by = made()
    with made_by.open_reader(build(made_by, tmp_path / "x", entries)) as reader:
        assert ask(reader, [k for k, _ in entries]) == [v for _, v in entries]
        with pytest.raises(CorruptFileError, match="does not hold the entries of its sections") as caught:
            reader.verify()
        assert caught.value.offset == 0
