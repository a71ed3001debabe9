"""Batches beyond a limit: held before their commit, and released or discarded, with others beside them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx import Table
from lakeidx.errors import BatchHeldError, CommitConflictError, InvalidInputError, NotFoundError
from lakeidx.maintenance.staging_cleanup import clean_staging
from lakeidx.options.limits import BatchLimits

FIELDS = [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
BUCKETS = {"index": {"bucket": "-1"}, "fixed": {"bucket": "2"}, "state": {"bucket": "-1", "index.type": "state"}}


def table_of(tmp_path: Path, options: Mapping[str, str] = BUCKETS["index"], **spec: Any) -> Table:
    spec = {"fields": FIELDS, "primaryKeys": ["id"], "options": dict(options), **spec}
    return Table.create(f"{tmp_path}/lake/a.db/t", spec)


def rows_of(ids: Sequence[int], v: str = "a", kinds: Sequence[str] | str = "+I") -> pa.Table:
    kinds = [kinds] * len(ids) if isinstance(kinds, str) else list(kinds)
    return pa.table({"id": pa.array(ids, pa.int64()), "v": [v] * len(ids), "_kind": kinds})


def held(table: Table, rows: pa.Table, limits: Mapping[str, str | int], **how: Any) -> str:
    before = table.snapshots()
    with pytest.raises(BatchHeldError) as found:
        table.upsert(rows, limits=limits, **how)
    assert list(before) == list(table.snapshots())
    return found.value.batch_id


def content(table: Table) -> dict[int, str]:
    rows = table.scan().to_arrow().to_pylist()
    assert len({r["id"] for r in rows}) == len(rows), "a key is there twice"
    return {r["id"]: r["v"] for r in rows}


@pytest.mark.parametrize("options", BUCKETS.values(), ids=BUCKETS)
def test_what_is_beyond_each_limit_is_held_and_what_is_not_passes(tmp_path: Path, options: dict[str, str]) -> None:
    table = table_of(tmp_path, options)
    table.upsert(rows_of(range(100)), batch_id="first")
    nine = rows_of(range(5, 14))
    beyond: list[tuple[pa.Table, dict[str, str | int]]] = [
        (rows_of(range(6), kinds="-D"), {"deletes": "5%"}),
        (rows_of(range(6), kinds="-D"), {"deletes": 5}),
        (rows_of(range(6), kinds="-D"), {"deletes": "50, 5%"}),
        (rows_of(range(51), "b"), {"updates": "50%"}),
        (rows_of(range(1000, 1201)), {"inserts": "2x"}),
        (rows_of(range(1000, 1011)), {"inserts": "10%", "deletes": 0}),
    ]
    within: list[tuple[pa.Table, dict[str, str | int]]] = [
        (rows_of([*range(5), 7777, 7778], kinds="-D"), {"deletes": "5%"}),
        (rows_of(range(5, 50), "b"), {"updates": "50%", "inserts": 0, "deletes": 0}),
        # An update with the row before it deletes nothing, and a row that comes twice is one.
        (rows_of([7] * 40, kinds=["-U", "+U"] * 20), {"deletes": "0%", "updates": 1}),
        (nine, {"updates": "10%", "new_partitions": 0, "rejected": "1%"}),
        (rows_of(range(1000, 1100)), {"inserts": "500x", "updates": 0}),
    ]
    for rows, limits in beyond:
        table.discard_batch(held(table, rows, limits))
    for rows, limits in within:
        assert table.upsert(rows, limits=limits).snapshots
    assert len(content(table)) == 195


@pytest.mark.parametrize(("options", "inserts", "updates"), [("index", 30.0, 10.0), ("fixed", 40.0, 40.0)])
def test_recent_batches_are_those_of_the_snapshots_whoever_wrote_them(
    tmp_path: Path, options: str, inserts: float, updates: float
) -> None:
    """Fixed buckets tell no new key from a known one: a row of a batch counts as either."""
    table = table_of(tmp_path, BUCKETS[options])
    table.upsert(rows_of(range(100)), limits={"inserts": "2x"})
    table.upsert(rows_of(range(80, 120), "b"))
    table.compact(full=True)
    table.update({"v": "'c'"}, where="id < 20")
    table.delete(where="id < 40", limits={"updates": "2x"})
    for kind, first, base in (("inserts", 1000, inserts), ("updates", 40, updates)):
        rows = rows_of(range(first, first + int(base) + 1))
        with pytest.raises(BatchHeldError, match=f"{int(base) + 1} {kind} where recent batches have {base} are beyond"):
            table.upsert(rows, limits={kind: "1x"})
        assert table.upsert(rows[:-1], limits={kind: "1x"}, dry_run=True).snapshots
    with pytest.raises(BatchHeldError, match=r"11 deletes where recent batches have 10\.0 are"):
        table.delete(where="id < 51", limits={"deletes": "1x"})
    table.delete(where="id < 50", limits={"deletes": "1x"})
    assert min(content(table)) == 50


@pytest.mark.parametrize("bucket", ["1", "-1"])
def test_rows_that_deletion_vectors_take_away_are_none_of_the_table(tmp_path: Path, bucket: str) -> None:
    table = table_of(tmp_path, {"bucket": bucket, "deletion-vectors.enabled": "true"})
    table.upsert(rows_of(range(100)))
    table.compact(full=True)
    table.delete(where="id < 50")
    table.compact()
    with pytest.raises(BatchHeldError, match=r"26 deletes are 52\.0% of the table's 50 rows"):
        table.delete(where="id < 76", limits={"deletes": "50%"})
    table.delete(where="id < 75", limits={"deletes": "50%"})


def test_what_overwrites_did_is_compared_by_partition(tmp_path: Path) -> None:
    fields = [*FIELDS, {"name": "day", "type": "INT"}]
    table = table_of(tmp_path, fields=fields, partitionKeys=["day"], primaryKeys=["id", "day"])
    rows = [{"id": n, "v": "a", "day": day} for day in (1, 2) for n in range(50)]
    table.upsert(rows)
    # 10 rows come to the second day, and 20 of the first go.
    table.overwrite([*rows[:30], *({"id": n, "v": "b", "day": 2} for n in range(60))])
    table.drop_partitions(["day=1"])
    with pytest.raises(BatchHeldError, match=r"56 inserts where recent batches have 55\.0 are"):
        table.upsert([{"id": n, "v": "c", "day": 3} for n in range(56)], limits="inserts=1x")
    with pytest.raises(BatchHeldError, match=r"11 deletes where recent batches have 10\.0 are"):
        table.overwrite([{"id": n, "v": "c", "day": 2} for n in range(49)], limits="deletes=1x")


def test_the_option_of_the_table_holds_at_every_door_and_an_argument_takes_its_place(tmp_path: Path) -> None:
    table = table_of(tmp_path, {"bucket": "-1", "lakeidx.limits": "deletes=5%,updates=50%"})
    table.upsert(rows_of(range(100)))
    beyond = "of the table's 100 rows, beyond the limit"
    with pytest.raises(BatchHeldError, match=beyond):
        table.delete(where="id < 50")
    with pytest.raises(BatchHeldError, match=beyond):
        table.update({"v": "'z'"}, where="id < 60")
    with pytest.raises(BatchHeldError, match=beyond):
        table.merge(rows_of(range(60)).drop_columns(["_kind"]), ["id"]).when_matched_update_all().execute()
    assert content(table) == dict.fromkeys(range(100), "a")
    assert [b["state"] for b in table.held_batches()] == ["held"] * 3
    table.delete(where="id < 50", limits={})
    with pytest.raises(InvalidInputError, match="limit deletes=lots: write a number"):
        table.alter(set={"lakeidx.limits": "deletes=lots"})


def test_an_overwrite_that_loses_rows_is_held(tmp_path: Path) -> None:
    fields = [*FIELDS, {"name": "day", "type": "INT"}]
    table = table_of(tmp_path, fields=fields, partitionKeys=["day"], primaryKeys=["id", "day"])
    rows = [{"id": n, "v": "a", "day": day} for day in (1, 2) for n in range(50)]
    table.upsert(rows)
    with pytest.raises(BatchHeldError, match=r"40 deletes are 40\.0%"):
        table.overwrite(rows[:10], limits={"deletes": "30%"})
    with pytest.raises(BatchHeldError, match="60 deletes"):
        table.overwrite(rows[:40], where="day > 0", limits={"deletes": "59"}, batch_id="w")
    with pytest.raises(BatchHeldError, match="1 new partitions are beyond"):
        table.upsert([{"id": 1, "v": "a", "day": 3}], limits={"new_partitions": 0})
    assert table.scan().to_arrow().num_rows == 100
    table.upsert([{"id": 77, "v": "late", "day": 2}])
    table.release_batch("w")
    assert sorted(r["id"] for r in table.scan().to_arrow().to_pylist()) == list(range(40))


@pytest.mark.parametrize("options", BUCKETS.values(), ids=BUCKETS)
def test_a_released_batch_comes_after_what_others_have_committed_since(tmp_path: Path, options: dict[str, str]) -> None:
    table = table_of(tmp_path, options)
    table.upsert(rows_of(range(100)))
    batch = held(table, rows_of([*range(50), *range(500, 600)], "held"), {"inserts": "1%"})
    table.upsert(rows_of([*range(40, 60), *range(550, 650)], "other"))
    table.delete(pa.table({"id": [1, 2, 99]}))
    table.compact(full=True)
    assert table.release_batch(batch).snapshots
    want = dict.fromkeys(range(100), "a") | dict.fromkeys([*range(40, 60), *range(550, 650)], "other")
    del want[99]
    assert content(table) == want | dict.fromkeys([*range(50), *range(500, 600)], "held")
    assert table.verify().passed
    assert not table.held_batches()
    with pytest.raises(NotFoundError, match="it was committed with snapshot"):
        table.release_batch(batch)


@pytest.mark.parametrize("named", [None, "mine"])
def test_a_discarded_batch_leaves_nothing_and_is_done(tmp_path: Path, named: str | None) -> None:
    table = table_of(tmp_path)
    table.upsert(rows_of(range(100)))
    files = {p for p in tmp_path.rglob("*") if p.is_file() and "_lakeidx" not in p.parts}
    rows = rows_of(range(60), "b")
    batch = held(table, rows, {"updates": "50%"}, batch_id=named)
    assert table.held_batch(batch).as_dict()["why"] == [
        "60 updates are 60.0% of the table's 100 rows, beyond the limit updates 50%"
    ]
    with pytest.raises(BatchHeldError):
        table.upsert(rows, batch_id=batch)
    table.discard_batch(batch)
    assert {p for p in tmp_path.rglob("*") if p.is_file() and "_lakeidx" not in p.parts} == files
    again = table.upsert(rows, batch_id=batch)
    assert again.already
    assert not again.snapshots
    assert "discarded" in again.note()
    with pytest.raises(NotFoundError, match="discarded"):
        table.release_batch(batch)
    assert content(table) == dict.fromkeys(range(100), "a")


def test_the_cleaning_of_staging_and_of_orphans_leaves_a_held_batch(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.upsert(rows_of(range(100)))
    batch = held(table, rows_of(range(60), "b"), {"updates": "50%"})
    later = int(time.time() * 1000) + 30 * 86_400_000
    assert clean_staging(table.metadata, now_ms=later, finished_age_ms=0).held == (batch,)
    assert batch in table.expire(staging_age="0 s").note()
    assert not table.orphans(older_than="0 s").files
    table.release_batch(batch)
    assert content(table) == dict.fromkeys(range(100), "a") | dict.fromkeys(range(60), "b")


def test_a_batch_is_placed_anew_after_a_rollback(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.upsert(rows_of(range(10)))
    table.upsert(rows_of(range(10, 20)))
    batch = held(table, rows_of([*range(12, 18), 30], "held"), {"updates": 1})
    table.rollback(1)
    table.upsert(rows_of(range(15, 25), "other"))
    table.release_batch(batch)
    assert content(table) == dict.fromkeys(range(10), "a") | dict.fromkeys(range(15, 25), "other") | dict.fromkeys(
        [*range(12, 18), 30], "held"
    )
    assert table.verify().passed


def test_rows_made_of_rows_that_changed_since_are_not_released(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.upsert(rows_of(range(10)))
    with pytest.raises(BatchHeldError) as found:
        table.update({"v": "v || '!'"}, limits={"updates": "50%"})
    table.upsert(rows_of([3], "new"))
    with pytest.raises(CommitConflictError):
        table.release_batch(found.value.batch_id)
    assert content(table) == dict.fromkeys(range(10), "a") | {3: "new"}


def test_files_of_a_folder_that_are_held_do_not_keep_others_out(tmp_path: Path) -> None:
    table, folder = table_of(tmp_path), tmp_path / "landing"
    folder.mkdir()
    table.upsert(rows_of(range(100)))
    for name, first in (("a", 0), ("b", 200), ("c", 300)):
        lines = [f"{n},x" for n in range(first, first + (80 if name == "a" else 5))]
        (folder / f"{name}.csv").write_text("\n".join(["id,v", *lines]))
    result = table.load(folder, settle_seconds=0, limits={"updates": "50%"})
    assert [(f.file, f.state) for f in result.files] == [("a.csv", "failed"), ("b.csv", "loaded"), ("c.csv", "loaded")]
    (batch,) = [b["batch"] for b in table.held_batches()]
    table.discard_batch(batch)
    (again,) = (f for f in table.load(folder, settle_seconds=0).files if f.file == "a.csv")
    assert (again.state, again.reason) == ("skipped", "loaded before")
    assert len(content(table)) == 110


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("deletes", "write what it limits"),
        ("delets=5%", "did you mean 'deletes'"),
        ("deletes=-1", "a number of rows, a share"),
        ("deletes=5 %x", "a number of rows, a share"),
        ("new_partitions=5%", "write a number"),
        ("rejected=2x", "a number of rows, or a share of the batch's rows"),
        ({"inserts": "nan%"}, "a multiple of recent"),
        ({"inserts": 1.5}, "a multiple of recent"),
    ],
)
def test_a_limit_that_is_none_says_how_one_is_written(given: Any, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        BatchLimits.parse(given)


def test_rejected_rows_beyond_a_limit_hold_the_batch_and_the_good_rows_can_be_released(tmp_path: Path) -> None:
    table, file = table_of(tmp_path), tmp_path / "a.csv"
    file.write_text("\n".join(["id,v", *(f"{n},x" for n in range(97)), "x,x", "y,x", "z,x"]))
    table.upsert_files([file], batch_id="fine", limits={"rejected": "3%"})
    with pytest.raises(BatchHeldError, match=r"3 rejected rows are 3\.0% of the batch's 100 rows"):
        table.upsert_files([file], batch_id="b", limits={"rejected": "1%"})
    shown = table.held_batch("b").as_dict()
    assert (shown["rejected"], shown["files"]) == (3, [str(file)])
    assert table.release_batch("b").rejected == 3
