"""Building lookup files group by group, and what listings of buckets cost and say."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import CorruptFileError
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.lookup.listing import LISTING_NAME, read_listing
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.alter import alter_table
from lakeidx.maintenance.lookup_store import LookupStoreReport, clean_lookup_files, run_lookup_store
from lakeidx.storage.local import LocalStore
from lakeidx.tasks import groups
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import filled_table, rows, upsert

pytestmark = pytest.mark.usefixtures("in_groups_of_two")
KEYS = [(p, 0, "a") for p in range(5)]


@pytest.fixture
def in_groups_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GROUP_ITEMS", 2)


def filled(folder: Path, **options: str) -> Table:
    """Five partitions with a file each."""
    return filled_table(folder, KEYS, options=options)


def build(table: Table) -> LookupStoreReport:
    return run_lookup_store(table.metadata, LocalRunner(1))


def listings(table: Table) -> dict[str, int]:
    """Files listed, by directory below the table."""
    found = Path(table.uri).rglob(LISTING_NAME)
    return {str(p.parent.relative_to(table.uri)): len(read_listing(LocalStore(), str(p))) for p in found}


def watching(table: Table) -> tuple[Table, list[str]]:
    """The table again, and the partitions whose listings it reads."""
    store, seen = FaultStore(table.store), list[str]()
    store.fail("get", f"/{LISTING_NAME}", act=lambda _, path: seen.append(path.split("/")[-3]), times=1000)
    return Table(store, table.paths), seen


def test_each_bucket_lists_its_own_files_and_a_second_build_reads_no_listing(tmp_path: Path) -> None:
    table = filled(tmp_path)
    report = build(table)
    assert (report.built, report.reused) == (5, 0)
    assert listings(table) == {f"lookup/p={p}/bucket-0": 1 for p in range(5)}
    upsert(table, [(3, 0, "b")])
    watched, seen = watching(table)
    again = build(watched)
    assert (again.built, again.reused) == (1, 5)
    assert listings(table)["lookup/p=3/bucket-0"] == 2
    # Only the listing that a file is added to.
    assert seen == ["p=3"]


def test_a_damaged_data_file_costs_only_itself_and_is_named(tmp_path: Path) -> None:
    table = filled(tmp_path)
    victim = sorted(Path(table.uri).rglob("data-*.parquet"))[0]
    victim.write_bytes(victim.read_bytes()[:40])
    with pytest.raises(CorruptFileError, match="1 of 5 data files were not made ready, 4 were committed: ") as error:
        build(table)
    assert str(victim) in str(error.value)
    assert set(listings(table).values()) == {1}
    assert len(listings(table)) == 4


def test_options_that_change_and_change_back_are_followed(tmp_path: Path) -> None:
    table = filled(tmp_path)
    assert build(table).built == 5
    for values in ("key", "value", "key"):
        alter_table(table, SchemaEdits(set={"lookup.store.values": values}))
        table = Table.open(table.uri)
        assert build(table).built == 5
        assert build(table).built == 0


def test_listings_go_with_the_last_lookup_file_of_a_bucket(tmp_path: Path) -> None:
    table = filled(tmp_path)
    build(table)
    old = Path(table.uri, "lookup", "listing-1.json")
    old.write_text("{}")
    # As if it were of a data file that no snapshot has any more.
    (file,) = Path(table.uri, "lookup", "p=1").rglob("data-*.lookup")
    gone = file.rename(file.with_name(f"data-gone{file.name[file.name.index('.') :]}"))
    cleaned = clean_lookup_files(table.metadata)
    assert {Path(f.path) for f in cleaned} == {old, gone, gone.with_name(LISTING_NAME)}
    assert sorted(listings(table)) == [f"lookup/p={p}/bucket-0" for p in (0, 2, 3, 4)]
    assert build(table).built == 1


def test_a_reader_loads_the_listings_of_its_buckets_once(tmp_path: Path) -> None:
    table = filled(tmp_path)
    build(table)
    watched, seen = watching(table)
    lookup = TableLookup(watched.metadata)
    keys = rows([(1, 0, ""), (4, 0, "")]).select(["p", "k"])
    assert lookup.lookup(keys).rows.column("v").to_pylist() == ["a", "a"]
    assert sorted(seen) == ["p=1", "p=4"]
    lookup.lookup(keys)
    upsert(table, [(2, 0, "b")])
    lookup.lookup(keys)
    # A new snapshot that brings these buckets nothing costs no listing.
    assert len(seen) == 2
    upsert(table, [(4, 0, "c")])
    assert lookup.lookup(keys).rows.column("v").to_pylist() == ["a", "c"]
    assert seen[2:] == ["p=4"]
