"""update and merge give what a plain dictionary gives, for every kind of table that takes them, beside other writers."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api.merge import Merge
from lakeidx.api.table import Table
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.errors import CommitConflictError, InvalidInputError, UnsupportedError
from lakeidx.testing.fault_store import FaultStore
from tests.kit.share import WHOLE

FIELDS = [
    {"name": "p", "type": "INT"},
    {"name": "k", "type": "BIGINT"},
    {"name": "name", "type": "STRING"},
    {"name": "qty", "type": "INT"},
    {"name": "price", "type": "DECIMAL(10, 2)"},
]
TABLES: dict[str, dict[str, Any]] = {
    "dynamic": {"options": {"bucket": "-1", "dynamic-bucket.target-row-num": "7"}},
    "fixed": {"options": {"bucket": "3"}},
    "partitioned": {"partitionKeys": ["p"], "options": {"bucket": "-1"}},
    "cross-partition": {"partitionKeys": ["p"], "primaryKeys": ["k"], "options": {"bucket": "-1"}},
    "vectors": {"options": {"bucket": "2", "deletion-vectors.enabled": "true", "lookup-wait": "true"}},
    "changelog": {"options": {"bucket": "-1", "changelog-producer": "input"}},
    "sequence": {"options": {"bucket": "-1", "sequence.field": "qty"}},
    "bloom": {"options": {"bucket": "-1", "index.type": "bloom"}},
}
Model = dict[int, dict[str, Any]]


def make(folder: Path, kind: str = "dynamic", **options: str) -> Table:
    """Make a table whose primary key is (p, k) or k; in these tests k is unique."""
    spec = {"fields": FIELDS, "primaryKeys": ["p", "k"], **TABLES[kind]}
    quick = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}
    return Table.create(f"{folder}/wh/d.db/t", {**spec, "options": {**spec["options"], **quick, **options}})


def row(k: int, name: str | None, qty: int) -> dict[str, Any]:
    return {"p": k % 3, "k": k, "name": name, "qty": qty, "price": Decimal(qty) / 4}


def content(table: Table) -> Model:
    return {r["k"]: r for r in table.scan().to_arrow().to_pylist()}


@pytest.mark.parametrize("kind", TABLES)
def test_updates_and_merges_are_those_of_a_dictionary(tmp_path: Path, kind: str) -> None:
    table, draw = make(tmp_path, kind), random.Random(kind)
    model: Model = {k: row(k, f"n{k}", k) for k in range(40)}
    table.upsert(list(model.values()))
    for turn in range(6 if WHOLE else 4):
        # A larger qty comes later where that is the sequence field.
        below = draw.randrange(40)
        table.update(
            {"qty": f"qty + {turn + 100}", "price": "price * 1.5", "name": "upper(name)"}, where=f"k < {below}"
        )
        for k in [k for k in model if k < below]:
            old = model[k]
            price = (old["price"] * Decimal("1.5")).quantize(Decimal("0.01"), "ROUND_HALF_UP")
            model[k] = {**old, "qty": old["qty"] + turn + 100, "price": price, "name": old["name"].upper()}
        chosen = draw.sample(range(60), 8)
        names = table.schema.primary_keys
        table.update({"name": "name || '#'"}, keys=[{n: row(k, None, 0)[n] for n in names} for k in chosen])
        for k in set(chosen) & set(model):
            model[k] = {**model[k], "name": model[k]["name"] + "#"}
        source = [row(k, f"s{turn}", 10_000 * (turn + 1)) for k in draw.sample(range(60), 20)]
        done = (
            table.merge(source, on=["p", "k"])
            .when_matched_delete("source.k % 7 = 0")
            .when_matched_update({"name": "source.name || target.k", "qty": "source.qty"}, "target.k % 2 = 0")
            .when_not_matched_insert_all("source.k < 55")
            .execute()
        )
        wanted = dict.fromkeys(("inserts", "updates", "deletes"), 0)
        for s in source:
            k = s["k"]
            if k not in model:
                if k < 55:
                    model[k] = s
                    wanted["inserts"] += 1
            elif k % 7 == 0:
                del model[k]
                wanted["deletes"] += 1
            elif k % 2 == 0:
                model[k] = {**model[k], "name": f"{s['name']}{k}", "qty": s["qty"]}
                wanted["updates"] += 1
        assert content(table) == model, turn
        if done is not None and kind not in ("fixed", "vectors", "bloom"):
            # A hash index keeps the hashes of deleted keys: one that comes back counts as an update.
            counts = (done.assign.inserts + done.assign.updates, done.assign.deletes)
            assert counts == (wanted["inserts"] + wanted["updates"], wanted["deletes"])
    assert table.verify().passed


def test_rows_that_the_source_does_not_have(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert([row(k, "old", k) for k in range(5)])
    source = pa.table({"id": [0, 1, 9], "n": ["a", "b", "c"]})
    merge = table.merge(source, on="t.k = s.id", aliases=("t", "s")).when_matched_update({"name": "s.n"})
    merge.when_not_matched_by_source_delete("t.k = 4").when_not_matched_by_source_update({"qty": -1, "name": "'gone'"})
    merge.when_not_matched_insert({"p": "0", "k": "s.id", "name": "s.n"}).execute()
    found = {k: (r["name"], r["qty"]) for k, r in content(table).items()}
    assert found == {0: ("a", 0), 1: ("b", 1), 2: ("gone", -1), 3: ("gone", -1), 9: ("c", None)}


def test_snapshots_say_what_they_are_and_nothing_is_written_for_no_row(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert([row(1, "a", 1)])
    assert table.update({"qty": 5}, where="k = 2") is None
    assert table.merge([row(2, "b", 2)], on=["p", "k"]).when_matched_delete().execute() is None
    plan = table.update({"qty": 5}, where="k = 1", dry_run=True)
    assert plan is not None
    assert plan.updates == 1
    table.update({"qty": 5}, where="k = 1")
    table.merge([row(2, "b", 2)], on=["p", "k"]).when_not_matched_insert_all().execute()
    table.delete(where="k = 1")
    operations = [table.metadata.load_snapshot(n).operation for n in range(1, 5)]
    assert operations == [None, "UPDATE", "MERGE", "DELETE"]


def test_a_batch_id_writes_once(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert([row(1, "a", 1)])
    first = table.update({"qty": "qty + 1"}, batch_id="b")
    again = table.update({"qty": "qty + 1"}, batch_id="b")
    assert isinstance(first, BatchResult)
    assert isinstance(again, BatchResult)
    assert (first.already, again.already) == (False, True)
    assert content(table)[1]["qty"] == 2


def test_rows_are_read_again_where_another_writer_has_changed_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    table.upsert([row(1, "a", 1), row(2, "a", 1)])
    other = Table.open(table.uri)
    write, calls = Table._write, list[object]()

    def late(self: Table, *given: Any, **more: Any) -> Any:
        if self is table and not calls:
            # After the rows are read, before they are written.
            calls.append(other.update({"qty": "qty + 10"}))
        return write(self, *given, **more)

    monkeypatch.setattr(Table, "_write", late)
    done = table.update({"qty": "qty * 2"}, where="k = 1")
    assert done is not None
    assert {k: r["qty"] for k, r in content(table).items()} == {1: 22, 2: 11}
    assert calls


def test_who_never_wins_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    table.upsert([row(1, "a", 1)])
    other, write = Table.open(table.uri), Table._write

    def late(self: Table, *given: Any, **more: Any) -> Any:
        if self is table:
            other.upsert([row(2, "b", 1)])
        return write(self, *given, **more)

    monkeypatch.setattr(Table, "_write", late)
    monkeypatch.setattr("lakeidx.api.verbs._WAIT_SECONDS", 0)
    with pytest.raises(CommitConflictError, match="others have written since"):
        table.update({"qty": "qty * 2"})
    assert content(table)[1]["qty"] == 1


@pytest.mark.parametrize("expression", ["(SELECT max(qty) FROM target)", "max(qty) OVER ()", "max(target.qty) over()"])
def test_an_update_that_looks_at_other_rows_sees_those_of_all_files(tmp_path: Path, expression: str) -> None:
    table = make(tmp_path, "partitioned")
    table.upsert([row(k, "n", k) for k in range(3)])
    assert table.update({"qty": expression}) is not None
    assert [r["qty"] for r in content(table).values()] == [2, 2, 2]


@pytest.mark.parametrize("expression", ["max(qty)", "geomean(qty)"])
def test_an_update_to_an_aggregate_is_refused(tmp_path: Path, expression: str) -> None:
    # A file has one row, for which one value would be as many as there are rows.
    table = make(tmp_path, "partitioned")
    table.upsert([row(k, "n", k) for k in range(3)])
    with pytest.raises(InvalidInputError, match="set qty: 1 values for 3 rows"):
        table.update({"qty": expression})
    assert [content(table)[k]["qty"] for k in range(3)] == [0, 1, 2]


def test_partial_update_tables_take_updates_of_some_columns(tmp_path: Path) -> None:
    table = make(tmp_path, **{"merge-engine": "partial-update"})
    table.upsert([row(1, "a", 1), row(2, "b", 2)])
    table.update({"qty": "qty + 1"}, where="k = 1")
    table.merge([row(2, "x", 7)], on=["p", "k"]).when_matched_update({"qty": "source.qty"}).execute()
    assert {k: (r["name"], r["qty"]) for k, r in content(table).items()} == {1: ("a", 2), 2: ("b", 7)}
    with pytest.raises(InvalidInputError, match="keeps the old value where a row has null"):
        table.update({"name": "NULL"})


@pytest.mark.parametrize("engine", ["aggregation", "first-row"])
def test_engines_that_compute_rows_take_none_and_say_what_to_do(tmp_path: Path, engine: str) -> None:
    table = make(tmp_path, **{"merge-engine": engine})
    table.upsert([row(1, "a", 1), row(2, "b", 2)])
    said = f"merge engine {engine} .*: .*overwrite the partition, or the table, with the rows "
    with pytest.raises(UnsupportedError, match=said):
        table.update({"qty": 1})
    with pytest.raises(UnsupportedError, match=said):
        table.merge([row(1, "a", 1)], on=["p", "k"]).when_matched_update_all().execute()
    with pytest.raises(UnsupportedError, match=said):
        table.delete(where="k = 1")
    table.overwrite([row(2, "b", 7)], whole_table=True)
    table.compact(full=True)
    assert {k: r["qty"] for k, r in content(table).items()} == {2: 7}


BAD: dict[str, tuple[Callable[[Table], object], str]] = {
    "a key": (lambda t: t.update({"k": "k + 1"}), "k is of the primary key"),
    "an unknown column": (lambda t: t.update({"qt": 1}), "no column 'qt'; did you mean 'qty'"),
    "neither keys nor a condition": (lambda t: t.delete(), "keys, or a condition"),
    "no column": (lambda t: t.update({}), "set takes a dictionary"),
    "an unknown function": (lambda t: t.update({"qty": "foo(1)"}), "set qty: .*foo"),
    "a value that does not fit": (lambda t: t.update({"qty": "qty + 9000000000"}), "set qty: .*out of range"),
    "a value of another type": (lambda t: t.update({"qty": [1]}), "set qty: .* is no INT"),
    "no clause": (lambda t: t.merge([row(1, "a", 1)], on=["p", "k"]).execute(), "a merge needs a clause"),
    "a clause that is none": (lambda t: t.merge([row(1, "a", 1)], on=["p", "k"]).when("MATCHED THEN WAIT"), "MATCHED THEN WAIT"),
    "a column that the source lacks": (
        lambda t: t.merge([row(1, "a", 1)], on=["p", "id"]).when_matched_delete().execute(), "on id: the source has",
    ),
    "a condition that is none": (
        lambda t: t.merge([row(1, "a", 1)], on="target.k = ").when_matched_delete().execute(), "on 'target.k = '",
    ),
    "a source that matches a row twice": (
        lambda t: t.merge([row(1, "a", 1)] * 2, on=["p", "k"]).when_matched_update_all().execute(), "two rows of the source",
    ),
    "a column that the table lacks": (
        lambda t: t.merge([{**row(1, "a", 1), "x": 1}], on=["p", "k"]).when_matched_update_all().execute(),
        "the source has a column 'x'",
    ),
    "a text that is no number": (
        lambda t: t.merge([{**row(1, "a", 1), "qty": "many"}], on=["p", "k"]).when_matched_update_all().execute(),
        "column qty: a value is no INT",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_writes_nothing(tmp_path: Path, case: str) -> None:
    call, said = BAD[case]
    table = make(tmp_path)
    table.upsert([row(1, "a", 1)])
    with pytest.raises(InvalidInputError, match=said) as caught:
        call(table)
    assert "\n" not in str(caught.value)
    assert table.snapshot is not None
    assert table.snapshot.id == 1


def test_clauses_are_taken_in_order(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert([row(k, "old", k) for k in range(4)])
    merge: Merge = table.merge([row(k, "new", k) for k in range(4)], on=["p", "k"])
    merge.when_matched_update({"name": "'first'"}, "target.k < 2").when_matched_update_all("target.k < 3").execute()
    assert [content(table)[k]["name"] for k in range(4)] == ["first", "first", "new", "old"]


def test_a_merge_of_whole_rows_is_an_upsert_and_refuses_a_key_twice(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert([row(1, "a", 1)])
    whole = [row(1, "b", 2), row(2, "b", 2)]
    table.merge(whole, on=["k", "p"]).when_matched_update_all().when_not_matched_insert_all().execute()
    assert content(table) == {r["k"]: r for r in whole}
    with pytest.raises(InvalidInputError, match="two rows of the source"):
        table.merge(whole * 2, on=["k", "p"]).when_matched_update_all().when_not_matched_insert_all().execute()


def test_clauses_of_sql(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert([row(k, "old", k) for k in range(4)])
    merge = table.merge([row(k, "new", k) for k in (0, 1, 7, 8)], on=["p", "k"])
    merge.when("WHEN MATCHED AND source.k = 0 THEN DELETE").when("MATCHED THEN UPDATE SET name = upper(source.name)")
    merge.when("NOT MATCHED AND source.k = 7 THEN INSERT *")
    merge.when("NOT MATCHED THEN INSERT (p, k, qty) VALUES (source.p, source.k, -1)")
    merge.when("NOT MATCHED BY SOURCE AND target.k = 3 THEN UPDATE SET qty = 99").execute()
    found = {k: (r["name"], r["qty"]) for k, r in content(table).items()}
    assert found == {1: ("NEW", 1), 2: ("old", 2), 3: ("old", 99), 7: ("new", 7), 8: (None, -1)}


@pytest.mark.parametrize("many", [0, 10_000])
@pytest.mark.parametrize("kind", TABLES)
def test_deletes_by_key_count_each_row_that_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, many: int
) -> None:
    monkeypatch.setattr("lakeidx.api.verbs._MANY_KEYS", many)
    table = make(tmp_path, kind)
    table.upsert([row(k, f"n{k}", k) for k in range(50)])
    names = table.schema.primary_keys
    done = table.delete([{n: row(k, None, 0)[n] for n in names} for k in (*range(5, 60), *range(5, 9))])
    assert isinstance(done, BatchResult)
    assert done.deletes == 45
    assert sorted(content(table)) == list(range(5))
    assert table.delete([{n: row(k, None, 0)[n] for n in names} for k in (70, 80)]) is None
    # A hash index has the hashes of deleted keys until it is shrunk, which a full compaction alone does not do.
    again = [{n: row(k, None, 0)[n] for n in names} for k in (5, 20)]
    assert table.delete(again) is None
    table.compact(full=True)
    assert table.delete(again) is None
    table.upsert([row(k, "n", 60) for k in (20, 60)])
    done = table.delete(again)
    assert isinstance(done, BatchResult)
    assert done.deletes == 1
    assert sorted(content(table)) == [*range(5), 60]
    assert not table.verify().fails()


def opened(table: Table, verb: Callable[[Table], object]) -> list[tuple[int, int]]:
    """Run a verb; return the partition and the smallest key of each data file of the table that was opened."""
    before = {f["file"]: (f["p"], f["min_key"][-1]) for f in table.files()}
    store = FaultStore(table.store)
    verb(Table(store, table.paths))
    names = {path.rpartition("/")[2] for method, path in store.calls if method in ("open_input", "get_range")}
    return sorted(before[n] for n in names & set(before))


NARROW: dict[str, tuple[Callable[[Table], object], list[tuple[int, int]]]] = {
    "delete a partition": (lambda t: t.delete(where="p = 1"), [(1, 0), (1, 100)]),
    "delete a key range": (lambda t: t.delete(where="k < 50"), [(0, 0), (1, 0), (2, 0)]),
    "update both": (lambda t: t.update({"qty": 1}, where="p = 2 AND k >= 100"), [(2, 100)]),
    "delete by keys": (lambda t: t.delete([{"p": 1, "k": 4}]), [(1, 0)]),
    "delete by keys of the index": (lambda t: t.delete([{"p": 3, "k": 54}, {"p": 3, "k": 999}]), []),
    "delete by keys that the index may have for nothing": (
        lambda t: t.delete([{"p": 1, "k": 4}, {"p": 1, "k": 999}]), [(1, 0), (1, 100)],
    ),
    "update by keys": (lambda t: t.update({"qty": 1}, keys=[{"p": 1, "k": 104}]), [(1, 100)]),
    "merge by keys": (
        lambda t: t.merge([{"p": 1, "k": 4, "qty": 1}], on=["p", "k"]).when_matched_update_all().execute(), [(1, 0)],
    ),
    "merge whole rows": (
        lambda t: t.merge([row(4, "a", 1)], on=["p", "k"]).when_matched_update_all().when_not_matched_insert_all().execute(),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NARROW)
def test_verbs_open_the_files_that_partitions_and_keys_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr("lakeidx.api.verbs._MANY_KEYS", 1)
    table = make(tmp_path, "partitioned")
    for first in (0, 100):
        table.upsert([row(k, "a", k) | {"p": p} for p in range(3) for k in range(first, first + 50)])
    table.upsert([row(k, "a", k) | {"p": 3} for k in range(50, 100)])
    verb, wanted = NARROW[case]
    assert opened(table, verb) == wanted
