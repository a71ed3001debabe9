"""Open lookup files: one reader each, the oldest goes first, and what is at hand needs no copy."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx import Table
from lakeidx.errors import NotFoundError
from lakeidx.lookup import open_readers as readers
from lakeidx.lookup.listing import LookupPlaces, StoredLookup, read_listing
from lakeidx.lookup.open_readers import LookupReaders


@pytest.fixture
def table(tmp_path: Path) -> Table:
    spec = {"fields": [{"name": "k", "type": "BIGINT"}], "primaryKeys": ["k"], "options": {"bucket": "3"}}
    made = Table.create(f"{tmp_path}/wh/d.db/t", spec)
    made.upsert(pa.table({"k": range(30)}))
    made.build_lookup_store()
    return made


def listed(table: Table) -> list[StoredLookup]:
    places = LookupPlaces(table.paths)
    found = [f for bucket in range(3) for f in read_listing(table.store, places.listing({}, bucket)).values()]
    assert len(found) == 3
    return found


def test_one_reader_a_file_and_the_oldest_is_closed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "OPEN_READERS", 2)
    one, two, three = listed(table)
    opened = LookupReaders(table.metadata)
    first, second = opened.open(one), opened.open(two)
    assert opened.open(one) is first
    assert opened.open(three) is not None
    # The second was used longest ago.
    assert opened.open(one) is first
    assert opened.open(two) is not second
    opened.close()
    assert opened.open(one) is not first
    opened.close()


def test_a_file_the_store_does_not_have(table: Table) -> None:
    one, *_ = listed(table)
    Path(LookupPlaces(table.paths).full(one.path)).unlink()
    with pytest.raises(NotFoundError):
        LookupReaders(table.metadata).open(one)
