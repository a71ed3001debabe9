"""Damage that point lookups find, beside that of single bytes (property/test_bytes): its place, and files made wrongly."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import CorruptFileError
from lakeidx.lookup.value_rows import encode_positions
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.tasks.runner import LocalRunner

IDS = list(range(24))
ROWS = pa.table({"id": IDS, "v": [f"value {i % 5}" for i in IDS]})


def make(folder: Path, values: str) -> Table:
    spec = {
        "fields": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}], "primaryKeys": ["id"],
        "options": {"bucket": "1", "lookup.store.values": values, "lookup.cache-spill-compression": "none"},
    }  # fmt: skip
    table = Table.create(f"{folder}/w/db.db/t", spec)
    table.upsert(ROWS)
    assert run_lookup_store(table.metadata, LocalRunner(1)).built == 1
    return table


def test_an_error_names_file_and_offset(tmp_path: Path) -> None:
    table = make(tmp_path, "value")
    (path,) = Path(table.uri, "lookup").rglob("*.lookup")
    good = path.read_bytes()
    path.write_bytes(good[:5] + bytes([good[5] ^ 1]) + good[6:])
    with pytest.raises(CorruptFileError, match="checksum") as caught:
        table.lookup(ROWS.select(["id"]))
    assert (caught.value.path, caught.value.offset) == (str(path), 0)


def test_positions_of_other_rows_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What no checksum can tell: a lookup file that was made wrongly.
    monkeypatch.setattr(
        "lakeidx.maintenance.lookup_store.encode_positions", lambda positions: encode_positions(positions[::-1])
    )
    table = make(tmp_path, "position")
    with pytest.raises(CorruptFileError, match="the key at the position in its lookup file is another one"):
        table.lookup(ROWS.select(["id"]))


def test_files_of_keys_alone_beside_deletion_vectors(tmp_path: Path) -> None:
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
    for ids in (IDS, IDS[1:-1], [10, 11, 13, 3], [12]):
        found = table.lookup(pa.table({"id": ids}))
        assert found.column("v").to_pylist() == ["new" if i in (3, 11, 12) else f"value {i % 5}" for i in ids]
