from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.containers.compress import BlockCodec
from lakeidx.codec.rows.compacted_row import encode_compacted
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.lookup.hash_store.reader import HashLookupStoreReader
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.sort_store.reader import SortLookupStoreReader
from lakeidx.lookup.store import LookupStoreOptions, StoreType, parse_store_type
from lakeidx.options.table_options import TableOptions
from lakeidx.types import parse_type
from tests.unit.lookup.stores import ask, build, factory, options_of

BOTH = pytest.mark.parametrize("store_type", list(StoreType))


def test_the_option_picks_the_type() -> None:
    assert parse_store_type(TableOptions({}).lookup_store_type) is StoreType.SORT
    assert parse_store_type(TableOptions({"lookup.store.type": "hash"}).lookup_store_type) is StoreType.HASH
    assert parse_store_type(" HASH ") is StoreType.HASH
    with pytest.raises(InvalidInputError, match="sort or hash, not 'tree'"):
        parse_store_type("tree")


def test_options_of_a_table() -> None:
    assert LookupStoreOptions.from_table_options(TableOptions({})) == LookupStoreOptions()
    made = LookupStoreOptions.from_table_options(
        TableOptions(
            {
                "cache-page-size": "4 kb",
                "lookup.cache-spill-compression": "lz4",
                "spill-compression.zstd-level": "3",
                "lookup.cache.bloom.filter.enabled": "false",
                "lookup.hash-load-factor": "0.8",
            }
        )
    )
    assert made == LookupStoreOptions(
        block_size=4096,
        compression=BlockCodec.LZ4,
        zstd_level=3,
        bloom_fpp=None,
        hash_load_factor=0.800000011920929,
    )


@pytest.mark.parametrize(
    "wrong",
    [{"block_size": 0}, {"bloom_fpp": 0.0}, {"bloom_fpp": 1.5}, {"hash_load_factor": 1.0}, {"compression": "x"}],
)
def test_options_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        options_of(**wrong)


@BOTH
def test_both_stores_have_one_interface(store_type: StoreType, tmp_path: Path) -> None:
    made_by = factory(store_type)
    file = build(made_by, tmp_path / "x", [(b"a", b"1"), (b"b", b"")])
    assert file.store_type is store_type
    reader = made_by.open_reader(file)
    assert isinstance(reader, SortLookupStoreReader if store_type is StoreType.SORT else HashLookupStoreReader)
    assert ask(reader, [b"b", b"c", b"a", b"a"]) == [b"", None, b"1", b"1"]
    for path in (str(tmp_path / "x"), tmp_path / "x"):
        reader = made_by.open_reader(path, checksum=file.checksum)
        assert ask(reader, [b"a"]) == [b"1"]
        with pytest.raises(CorruptFileError):
            made_by.open_reader(path, checksum=file.checksum ^ 1)


#: Few different values and lengths, so that shared values, crowded tables and blocks of records of one size are common.
ENTRIES = st.dictionaries(st.binary(max_size=5), st.sampled_from([b"", b"a", b"bb", b"c" * 200]), max_size=40)


@BOTH
@settings(deadline=None)
@given(
    ENTRIES, st.sampled_from([16, 64, 65536]), st.sampled_from([None, 0.05]), st.integers(0, 50),
    st.lists(st.integers(0, 40), max_size=4),
)  # fmt: skip
def test_a_file_is_the_same_however_its_input_comes(
    store_type: StoreType,
    tmp_path_factory: pytest.TempPathFactory,
    entries: dict[bytes, bytes],
    block_size: int,
    fpp: float | None,
    expected: int,
    cuts: list[int],
) -> None:
    folder = tmp_path_factory.mktemp("store")
    made_by = factory(store_type, compression="none", block_size=block_size, bloom_fpp=fpp)
    rows = sorted(entries.items()) if store_type is StoreType.SORT else list(entries.items())
    whole = build(made_by, folder / "whole", rows, expected=expected)
    with made_by.create_writer(folder / "parts", expected_entries=expected) as writer:
        for start, end in itertools.pairwise([0, *sorted(cuts), len(rows)]):
            part = rows[start:end]
            writer.write(RowBytes.from_list([k for k, _ in part]), RowBytes.from_list([v for _, v in part]))
        parts = writer.finish()
    assert Path(parts.path).read_bytes() == Path(whole.path).read_bytes()
    assert (parts.size, parts.entries, parts.checksum) == (Path(whole.path).stat().st_size, len(rows), whole.checksum)


@BOTH
def test_keys_of_another_form(store_type: StoreType, tmp_path: Path) -> None:
    types = [parse_type("BIGINT"), parse_type("STRING")]
    order = KeyOrder.row_compacted(types)
    good = encode_compacted([1, "a"], types)
    made_by = factory(store_type, order=order)
    reader = made_by.open_reader(build(made_by, tmp_path / "x", [(good, b"1")]))
    assert ask(reader, [good]) == [b"1"]
    for bad in (b"", good[:-1], good + b"x", encode_compacted([1], types[:1])):
        with pytest.raises(InvalidInputError, match=r"key 1 .* is not one of rows of"):
            reader.lookup_many(RowBytes.from_list([good, bad]))
    with pytest.raises(InvalidInputError, match="RowBytes"):
        reader.lookup_many([good])  # type: ignore[arg-type]


@BOTH
def test_files_that_are_not_there_or_of_the_other_type(store_type: StoreType, tmp_path: Path) -> None:
    made_by = factory(store_type)
    with pytest.raises(NotFoundError):
        made_by.open_reader(tmp_path / "x")
    file = build(made_by, tmp_path / "x", [(b"a", b"1")])
    other = factory(StoreType.HASH if store_type is StoreType.SORT else StoreType.SORT)
    with pytest.raises((CorruptFileError, NotFoundError)):
        other.open_reader(file.path)


def test_a_sort_file_opened_in_another_order_is_found_out(tmp_path: Path) -> None:
    types = [parse_type("INT")]
    keys = [encode_compacted([n], types) for n in (1, 256, 257, 70000)]
    file = build(factory(StoreType.SORT, order=KeyOrder.row_compacted(types)), tmp_path / "x", [(k, b"") for k in keys])
    # By its path alone: of a file whose checksum is known, a lookup takes the writer's word for the order.
    with pytest.raises(CorruptFileError, match="out of order"):
        factory(StoreType.SORT).open_reader(file.path)
    with pytest.raises(CorruptFileError, match=r"key order: rows of \(STRING\)"):
        factory(StoreType.SORT, order=KeyOrder.row_compacted([parse_type("STRING")])).open_reader(file)
