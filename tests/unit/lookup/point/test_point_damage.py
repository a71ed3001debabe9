"""Damage in any file of a table's lookup store, seen through point lookups: the right rows or CorruptFileError, never others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import CorruptFileError
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.lookup.sort_store.reader import SortFile
from lakeidx.lookup.value_rows import encode_positions
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.tasks.runner import LocalRunner

IDS = list(range(24))
ROWS = pa.table({"id": IDS, "v": [f"value {i % 5}" for i in IDS]})
ABSENT = pa.table({"id": [-1, 24, 1000]})
KINDS = [
    ("sort", "value", "none"), ("sort", "value", "zstd"), ("hash", "value", "none"), ("hash", "value", "lz4"),
    ("sort", "position", "none"), ("sort", "key", "none"), ("hash", "key", "none"),
]  # fmt: skip


def make(folder: Path, store_type: str, values: str, codec: str) -> Table:
    spec = {
        "fields": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}], "primaryKeys": ["id"],
        "options": {"bucket": "1", "lookup.store.type": store_type, "lookup.store.values": values, "cache-page-size": "256 b",
                    "lookup.cache-spill-compression": codec},
    }  # fmt: skip
    table = Table.create(f"{folder}/w/db.db/t", spec)
    table.upsert(ROWS)
    assert run_lookup_store(table.metadata, LocalRunner(1)).built == 1
    return table


def files_of(table: Table) -> list[Path]:
    found = [p for p in Path(table.uri, "lookup").rglob("*") if p.is_file() and not p.name.startswith("listing")]
    assert found
    return found


def outcome(table: Table) -> str:
    """What a lookup of all keys and of absent ones gives."""
    lookup = TableLookup(table.metadata)
    try:
        present, absent = lookup.lookup(ROWS.select(["id"])), lookup.lookup(ABSENT)
    except CorruptFileError as error:
        assert error.path is not None  # noqa: PT017
        assert "/lookup/" in error.path  # noqa: PT017
        assert error.offset is not None  # noqa: PT017
        assert error.offset >= 0  # noqa: PT017
        return "damaged"
    assert present.found.all()
    assert present.rows.equals(ROWS)
    assert not absent.found.any()
    assert lookup.metrics.lookup_files > 0
    return "right"


def with_damage(path: Path, step: int) -> Iterator[bytes]:
    """The file with a byte flipped, missing, or everything from there on missing."""
    good = path.read_bytes()
    for at in range(0, len(good), step):
        yield good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :]
        yield good[:at] + good[at + 1 :]
        yield good[:at]
    yield good + b"\0"


@pytest.mark.slow
@pytest.mark.parametrize(("store_type", "values", "codec"), KINDS)
def test_damage_is_always_found(tmp_path: Path, store_type: str, values: str, codec: str) -> None:
    table = make(tmp_path, store_type, values, codec)
    assert outcome(table) == "right"
    for path in files_of(table):
        good = path.read_bytes()
        for number, bad in enumerate(with_damage(path, 11)):
            path.write_bytes(bad)
            assert outcome(table) == "damaged", f"damage {number} of {path.name}"
        path.write_bytes(good)
    assert outcome(table) == "right"


def test_an_error_names_file_and_offset(tmp_path: Path) -> None:
    table = make(tmp_path, "sort", "value", "none")
    (path,) = files_of(table)
    good = path.read_bytes()
    path.write_bytes(good[:5] + bytes([good[5] ^ 1]) + good[6:])
    with pytest.raises(CorruptFileError, match="checksum") as caught:
        table.lookup(ROWS.select(["id"]))
    assert (caught.value.path, caught.value.offset) == (str(path), 0)


def test_damage_in_a_listing(tmp_path: Path) -> None:
    table = make(tmp_path, "sort", "value", "none")
    listing = next(Path(table.uri, "lookup").rglob("listing.json"))
    good = listing.read_bytes()
    for at in range(0, len(good) - 1, 5):
        listing.write_bytes(good[:at])
        with pytest.raises(CorruptFileError):
            TableLookup(table.metadata).lookup(ROWS.select(["id"]))


def test_positions_of_other_rows_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What no checksum can tell: a lookup file that was made wrongly.
    monkeypatch.setattr(
        "lakeidx.maintenance.lookup_store.encode_positions", lambda positions: encode_positions(positions[::-1])
    )
    table = make(tmp_path, "sort", "position", "none")
    with pytest.raises(CorruptFileError, match="the key at the position in its lookup file is another one"):
        table.lookup(ROWS.select(["id"]))


@pytest.mark.parametrize("moved", [0, 1])
def test_numbers_of_entries_are_not_relied_on(tmp_path: Path, moved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # The sizes of blocks without a requested key are not checked, and say at which position a key is.
    spec = {
        "fields": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}], "primaryKeys": ["id"],
        "options": {"bucket": "1", "lookup.store.values": "key", "cache-page-size": "256 b", "deletion-vectors.enabled": "true"},
    }  # fmt: skip
    table = Table.create(f"{tmp_path}/w/db.db/t", spec)
    table.upsert(ROWS)
    table.compact(full=True)
    table.upsert(pa.table({"id": [3, 11, 12], "v": ["new", "new", "new"]}))
    table.compact()
    assert run_lookup_store(table.metadata, LocalRunner(1)).built == 2
    right = SortFile.first_entries.func  # type: ignore[attr-defined]
    monkeypatch.setattr(SortFile, "first_entries", property(lambda file: right(file) + moved))
    for ids in (IDS, IDS[1:-1], [10, 11, 13, 3], [12]):
        found = table.lookup(pa.table({"id": ids}))
        assert found.column("v").to_pylist() == ["new" if i in (3, 11, 12) else f"value {i % 5}" for i in ids]
