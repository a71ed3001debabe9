"""Batches that cannot fit say so before anything is written, with what to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.batch.assignment import room as rooms
from lakeidx.batch.assignment.room import check_buckets_fit, check_driver_holds, check_rows_fit
from lakeidx.batch.upsert import make_context, upsert_table
from lakeidx.errors import InvalidInputError
from lakeidx.testing.reachable import files_on_disk
from lakeidx.testing.small_tables import content, make_table, upsert
from lakeidx.testing.small_tables import rows as rows_of

GIB = 1 << 30


@pytest.mark.parametrize(
    ("options", "fits", "too_many"),
    [
        ({}, 26_000_000, 27_000_000),
        ({"bucket": "4"}, 26_000_000, 27_000_000),
        ({"index.type": "simple"}, 11_000_000, 12_000_000),
        ({"index.type": "state"}, 6_700_000, 6_800_000),
    ],
)
def test_rows_of_a_gibibyte(tmp_path: Path, options: dict[str, str], fits: int, too_many: int) -> None:
    schema = make_table(tmp_path, options=options).schema
    check_rows_fit(schema, fits, GIB)
    with pytest.raises(InvalidInputError, match=rf"{too_many} rows.*1\.0 GiB; load it as several batches"):
        check_rows_fit(schema, too_many, GIB)


def test_what_only_the_driver_can_place_is_refused_above_its_budget(tmp_path: Path) -> None:
    """The keys of the table count, too, for an index that has them in memory."""
    table = make_table(tmp_path, options={"index.type": "inmemory", "index.driver-memory": "128 mb"})
    schema = table.schema
    check_driver_holds(schema, 800_000, 0)
    check_driver_holds(schema, 100_000, 2_000_000)
    for rows, held in ((900_000, 0), (100_000, 3_000_000)):
        with pytest.raises(
            InvalidInputError, match=rf"index\.type=inmemory.* {rows} rows.*'index\.driver-memory' allows 0\.1 GiB"
        ):
            check_driver_holds(schema, rows, held)
    before = files_on_disk(table)
    values = [(1, k, "a") for k in range(5)]
    small = make_context(table.metadata, "b", driver_bytes=5 * 160 - 1)
    with pytest.raises(InvalidInputError, match="the driver would hold 5 rows of the batch, "):
        upsert_table(small, rows_of(values))
    assert files_on_disk(table) == before
    upsert_table(make_context(table.metadata, "b", driver_bytes=5 * 160), rows_of(values))
    with pytest.raises(InvalidInputError, match="5 rows of the batch and the keys of 5 rows of the table"):
        upsert_table(make_context(table.metadata, "b2", driver_bytes=5 * 160), rows_of(values))


def test_an_index_of_keys_numbers_its_rows_in_32_bits(tmp_path: Path) -> None:
    keyed, hashed = (make_table(tmp_path / t, options={"index.type": t}).schema for t in ("simple", "hash"))
    check_rows_fit(hashed, 1 << 31, 1 << 50)
    with pytest.raises(InvalidInputError, match=r"can assign 2147483647 at a time with index\.type=simple"):
        check_rows_fit(keyed, 1 << 31, 1 << 50)


@pytest.mark.parametrize(("bucket", "option"), [("-1", "dynamic-bucket.target-row-num"), ("4", "bucket")])
def test_buckets_of_a_gibibyte(tmp_path: Path, bucket: str, option: str) -> None:
    schema = make_table(tmp_path, options={"bucket": bucket}).schema
    check_buckets_fit(schema, 500_000, GIB)
    with pytest.raises(InvalidInputError, match=rf"600000 buckets, and 536870 fit .*\(option '{option}'\)"):
        check_buckets_fit(schema, 600_000, GIB)


@pytest.mark.parametrize("room", [100, 5000])
def test_a_batch_that_does_not_fit_writes_no_file_into_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Too many rows for the first, too many buckets for the second; with more memory the same batch goes on."""
    table = make_table(tmp_path)
    before = files_on_disk(table)
    values = [(p, 0, "a") for p in range(5)]
    with monkeypatch.context() as small:
        small.setattr(rooms, "available_bytes", lambda: room)
        with pytest.raises(InvalidInputError, match="5 rows" if room == 100 else "5 buckets"):
            upsert(table, values, batch_id="b")
    assert files_on_disk(table) == before
    upsert(table, values, batch_id="b")
    assert content(table) == {(p, 0): "a" for p in range(5)}
