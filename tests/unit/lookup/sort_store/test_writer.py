from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeidx.codec.rows.compacted_row import encode_compacted
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.sort_store.writer import SortLookupStoreWriter
from lakeidx.lookup.store import StoreType
from lakeidx.types import parse_type
from tests.unit.lookup.stores import PLAIN, ask, build, factory, options_of, show


def writer(path: Path, **options: Any) -> SortLookupStoreWriter:
    made = options_of(**{"compression": "none", **options})
    return SortLookupStoreWriter(path, options=made, order=PLAIN, expected_entries=3)


@pytest.mark.parametrize(
    ("keys", "at", "relation"),
    [([b"a", b"c", b"b"], 2, "comes before"), ([b"a", b"b", b"b"], 2, "equals"), ([b"\xff", b"a"], 1, "comes before"),
     ([b"ab", b"a"], 1, "comes before"), ([b"", b""], 1, "equals")],
)  # fmt: skip
@pytest.mark.parametrize("split", [False, True])
def test_input_out_of_order_is_refused(tmp_path: Path, keys: list[bytes], at: int, relation: str, split: bool) -> None:
    out = writer(tmp_path / "x.sst")
    batches = [[key] for key in keys] if split else [keys]
    for batch in batches[:-1]:
        out.write(RowBytes.from_list(batch), RowBytes.from_list([b"v"] * len(batch)))
    with pytest.raises(InvalidInputError, match=f"entry {at} is out of order: its key .* {relation} the key"):
        out.write(RowBytes.from_list(batches[-1]), RowBytes.from_list([b"v"] * len(batches[-1])))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInputError, match="closed"):
        out.finish()


def test_the_order_is_that_of_the_types(tmp_path: Path) -> None:
    types = [parse_type("INT")]
    numbers = [-70000, -1, 0, 1, 255, 256, 70000]
    keys = [encode_compacted([n], types) for n in numbers]
    made_by = factory(StoreType.SORT, order=KeyOrder.row_compacted(types))
    assert build(made_by, tmp_path / "x.sst", [(key, b"") for key in keys]).entries == 7
    # The bytes of these keys are in another order: as bytes they are refused, and byte order is refused as numbers.
    with pytest.raises(InvalidInputError, match="entry 2 is out of order"):
        build(factory(StoreType.SORT), tmp_path / "y.sst", [(key, b"") for key in keys])
    with pytest.raises(InvalidInputError, match="out of order"):
        build(made_by, tmp_path / "y.sst", [(key, b"") for key in sorted(keys)])


def test_keys_of_another_form_are_refused(tmp_path: Path) -> None:
    made_by = factory(StoreType.SORT, order=KeyOrder.row_compacted([parse_type("INT")]))
    good = encode_compacted([1], [parse_type("INT")])
    with pytest.raises(InvalidInputError, match=r"key 1 .*ends before"):
        build(made_by, tmp_path / "x.sst", [(good, b""), (good[:-1], b"")])


def test_keys_and_values_of_other_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="2 keys but 1 values"):
        writer(tmp_path / "x.sst").write(RowBytes.from_list([b"a", b"b"]), RowBytes.from_list([b"v"]))


def test_an_unfinished_writer_leaves_nothing(tmp_path: Path) -> None:
    with writer(tmp_path / "x.sst") as out:
        out.write(RowBytes.from_list([b"a"]), RowBytes.from_list([b"v" * 100_000]))
        assert [path.suffix for path in tmp_path.iterdir()] == [".tmp"]
    assert list(tmp_path.iterdir()) == []
    out.abort()


def test_an_older_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "x.sst"
    first = build(factory(StoreType.SORT), path, [(b"a", b"1")])
    second = build(factory(StoreType.SORT), path, [(b"a", b"2")])
    assert first.checksum == second.checksum or first.size != second.size
    reader = factory(StoreType.SORT).open_reader(second)
    assert ask(reader, [b"a"]) == [b"2"]
    assert [p.name for p in path.parent.iterdir()] == ["x.sst"]


@pytest.mark.parametrize(
    ("values", "block_size", "entries"),
    [([b"1"], 20, 4), ([b"1"], 19, 3), ([b"1", b"22"], 24, 3), ([b"1", b"22"], 23, 2)],
)
def test_a_block_ends_with_the_record_that_makes_it_too_large(
    tmp_path: Path, values: list[bytes], block_size: int, entries: int
) -> None:
    """Records of 5 bytes and a tail of as many; where sizes differ, 4 bytes more for each place of a record."""
    rows = [(b"%02d" % i, values[i % len(values)]) for i in range(24)]
    file = build(factory(StoreType.SORT, compression="none", block_size=block_size), tmp_path / "x.sst", rows)
    assert show(file)["blocks"][0]["entries"] == entries
