"""A changed, missing or added byte anywhere in a store gives CorruptFileError with path and position, never a wrong answer."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.api.inspect.files import describe_lookup_file
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.sst import FOOTER_SIZE, decode_footer, describe_sst
from lakeidx.lookup.store import LookupFile, StoreType
from lakeidx.storage.local import LocalStore
from tests.unit.lookup.stores import CODECS, Stores, ask, build, factory, sst_entries

ENTRIES = [(b"k%d" % (i + 10), b"v" * (25 * (i % 3))) for i in range(12)]
ABSENT = [b"", b"k", b"k100", b"zzz"]
STORES = [(store_type, codec) for store_type in StoreType for codec in CODECS]
NAMES = [f"{store_type.value}-{codec}" for store_type, codec in STORES]


def made(store_type: StoreType, codec: str, folder: Path) -> tuple[Stores, LookupFile]:
    made_by = factory(store_type, compression=codec, block_size=128)
    return made_by, build(made_by, folder / "x", ENTRIES)


def answers(made_by: Stores, file: LookupFile | str) -> list[bytes | None]:
    reader = made_by.open_reader(file)
    return ask(reader, [key for key, _ in ENTRIES] + ABSENT)


RIGHT = [value for _, value in ENTRIES] + [None] * len(ABSENT)


def expect_damage(made_by: Stores, file: LookupFile, changed: Path) -> None:
    with pytest.raises(CorruptFileError) as caught:
        answers(made_by, file)
    assert caught.value.path in (file.path, *file.side_files)
    assert caught.value.offset is not None
    assert 0 <= caught.value.offset <= max(changed.stat().st_size, file.size)


@pytest.mark.parametrize("codec", CODECS)
def test_the_blocks_are_compressed(codec: str, tmp_path: Path) -> None:
    _, file = made(StoreType.SORT, codec, tmp_path)
    assert codec in [block["compression"] for block in describe_lookup_file(LocalStore(), str(file.path))["blocks"]]


@pytest.mark.parametrize(("store_type", "codec"), STORES, ids=NAMES)
def test_every_byte_flipped_missing_or_doubled_and_every_cut(store_type: StoreType, codec: str, tmp_path: Path) -> None:
    made_by, file = made(store_type, codec, tmp_path)
    assert answers(made_by, file) == RIGHT
    for path in map(Path, (file.path, *file.side_files)):
        good = path.read_bytes()
        for at in range(len(good)):
            here, after = good[at : at + 1], good[at + 1 :]
            for bad in (bytes([good[at] ^ (1 << at % 8)]) + after, b"", after, here + here + after):
                path.write_bytes(good[:at] + bad)
                expect_damage(made_by, file, path)
        path.write_bytes(good)
    assert answers(made_by, file) == RIGHT


@pytest.mark.parametrize("codec", CODECS)
def test_flips_in_a_sort_file_whose_checksum_is_not_known(codec: str, tmp_path: Path) -> None:
    made_by, file = made(StoreType.SORT, codec, tmp_path)
    path = Path(file.path)
    good = path.read_bytes()
    footer = decode_footer(good[-FOOTER_SIZE:], len(good))
    assert footer.bloom is not None
    entries_field = range(len(good) - FOOTER_SIZE + 12, len(good) - FOOTER_SIZE + 20)
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :])
        if at in entries_field:
            # Another number of entries that gives the same number of probes changes no answer.
            try:
                assert answers(made_by, str(path)) == RIGHT
            except CorruptFileError as e:
                assert e.path == str(path)  # noqa: PT017
        else:
            with pytest.raises(CorruptFileError):
                answers(made_by, str(path))


@pytest.mark.parametrize(("store_type", "codec"), STORES, ids=NAMES)
def test_another_intact_file_under_the_name(store_type: StoreType, codec: str, tmp_path: Path) -> None:
    made_by, file = made(store_type, codec, tmp_path)
    other = build(made_by, tmp_path / "y", ENTRIES[:-1])
    with pytest.raises(CorruptFileError):
        answers(made_by, replace(other, path=file.path))


def _sealed(body: bytes, last_key: bytes) -> bytes:
    """An SST of one block with right checksums, whatever the body holds."""

    def stored(block: bytes) -> bytes:
        return block + b"\0" + struct.pack("<I", zlib.crc32(block + b"\0"))

    def varint(value: int) -> bytes:
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)

    handle = b"\0" + varint(len(body))
    record = varint(len(last_key)) + last_key + varint(len(handle)) + handle
    index = record + struct.pack("<iB", len(record), 0)
    footer = struct.pack("<qiqqii", 0, 0, 0, len(body) + 5, len(index), 1481571681)
    return stored(body) + stored(index) + footer


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_bodies_that_are_wrong_under_a_right_checksum(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    good = bytearray(
        bytes.fromhex("0161 0131  0162 0131  0163 0131  04000000 00")
        if data.draw(st.booleans())
        else bytes.fromhex("0161 0131  0262620131  0163 00  00000000 04000000 09000000 03000000 01")
    )
    for _ in range(data.draw(st.integers(0, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 8) | st.integers(0, 255))
    last_key = data.draw(st.sampled_from([b"c", b"b", b"cc"]))
    path = tmp_path_factory.mktemp("store") / "x"
    path.write_bytes(_sealed(bytes(good), last_key))
    asked = [b"", b"a", b"b", b"bb", b"c", b"d"]
    made_by = factory(StoreType.SORT)
    try:
        described = describe_sst(memoryview(path.read_bytes()))
        reader = made_by.open_reader(path)
        found, values = reader.lookup_many(RowBytes.from_list([b"c", b"a"]))
        scanned = dict(sst_entries(path))
        assert ask(reader, asked) == [scanned.get(key) for key in asked]
    except CorruptFileError as e:
        assert e.offset is not None  # noqa: PT017
    else:
        # Accepted: then it is a block in order that ends with the index's key.
        assert len(scanned) == described["entries"]
        assert list(scanned) == sorted(scanned)
        assert max(scanned) == last_key
        assert found.tolist() == [b"c" in scanned, b"a" in scanned]
        assert values[0] == scanned.get(b"c", b"")


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=120))
def test_any_bytes_as_files(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("store")
    (folder / "x").write_bytes(data)
    (folder / "x.context").write_bytes(data)
    for store_type in StoreType:
        with pytest.raises(CorruptFileError):
            factory(store_type).open_reader(folder / "x")
    with pytest.raises(CorruptFileError):
        describe_lookup_file(LocalStore(), str(folder / "x"))
