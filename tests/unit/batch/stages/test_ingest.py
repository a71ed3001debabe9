"""Bad input of every kind: a clear error or a rejected row with reason and line, and never half a batch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.context import make_context
from lakeidx.batch.stages import ingest
from lakeidx.batch.stages.ingest import run_ingest
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.errors import CorruptFileError, InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.landing.read import LandingOptions
from lakeidx.landing.text.shares import cross_range
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import content, make_table, table_fields, table_spec
from tests.kit.upserts import upsert_files

_TAGS = {"name": "tags", "type": {"type": "ARRAY", "element": "STRING"}}
SPEC = table_spec(
    [*table_fields("k BIGINT, amount DECIMAL(5, 2), day DATE"), _TAGS, *table_fields("note STRING NOT NULL")],
    ["k"],
    options={"bucket": "-1"},
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(f"{tmp_path}/wh/d.db/bad", SPEC)


def upsert(table: Table, *files: Path, batch: str = "b", strict: bool = False, **options: Any) -> BatchResult:
    context = make_context(table.metadata, batch, runner=LocalRunner(2))
    # Most files here have the columns that matter only.
    return upsert_files(
        context, [str(f) for f in files], LandingOptions(**{"missing": "null", **options}), strict=strict
    )


def rejected(table: Table, result: BatchResult) -> list[tuple[str, int, str]]:
    """(file name, line, reason) of all rejected rows."""
    path = result.ingest.rejected_path
    if path is None:
        return []
    found = read_rejected(table.store, path).to_pylist()
    return [(os.path.basename(r["source"]), r["line"], r["reason"]) for r in found]


def notes(table: Table) -> dict[int, str]:
    found = table.scan().to_arrow().to_pylist()
    out = {r["k"]: r["note"] for r in found}
    assert len(out) == len(found)
    return out


def test_rejected_rows_carry_file_line_reason_and_text(table: Table, tmp_path: Path) -> None:
    good = tmp_path / "a.csv"
    good.write_text('k,amount,day,note,_kind\n1,1.50,2024-01-01,"two\nlines",+I\n\n,1,2024-01-01,x,+I\n')
    bad = tmp_path / "b.csv"
    bad.write_text(
        "k,amount,day,note,_kind\n2,1000.00,2024-01-01,wide,+I\n3,1.005,2024-01-01,fine,\n4,1,2024-13-01,day,+U\n"
        "5,1,2024-01-01,kind,insert\n6,1\nx,1,2024-01-01,key,-D\n7,1,2024-01-01,,+I\n8,-999.99,,ok,+I\n"
    )
    result = upsert(table, good, bad)
    assert rejected(table, result) == [
        ("a.csv", 5, "null: column k must not be null"),
        ("b.csv", 2, "cast: column amount is not DECIMAL(5, 2): '1000.00'"),
        ("b.csv", 3, "cast: column amount is not DECIMAL(5, 2): '1.005'"),
        ("b.csv", 4, "cast: column day is not DATE: '2024-13-01'"),
        ("b.csv", 5, "kind: the row kind is not one of +I -U +U -D: 'insert'"),
        ("b.csv", 6, "format: 2 columns instead of 5"),
        ("b.csv", 7, "cast: column k is not BIGINT: 'x'"),
        ("b.csv", 8, "null: column note must not be null"),
    ]
    assert notes(table) == {1: "two\nlines", 8: "ok"}
    report = result.ingest
    assert (report.rows_in, report.rows_rejected, report.rows_staged) == (10, 8, 2)
    assert report.reject_reasons == {"null": 2, "format": 1, "cast": 4, "kind": 1}
    assert result.commit.snapshot_ids == (1,)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_the_later_row_of_a_key_wins_by_file_then_row(table: Table, tmp_path: Path, form: str) -> None:
    def write(name: str, values: list[tuple[int, str]]) -> Path:
        path = tmp_path / f"{name}.{form}"
        if form == "csv":
            path.write_text("k,note\n" + "".join(f"{k},{n}\n" for k, n in values))
        elif form == "jsonl":
            path.write_text("".join(json.dumps({"k": k, "note": n}) + "\n" for k, n in values))
        else:
            pq.write_table(pa.table({"k": [k for k, _ in values], "note": [n for _, n in values]}), path)
        return path

    z = write("z", [(1, "z1"), (2, "z2"), (1, "z3")])
    a = write("a", [(2, "a1"), (3, "a2"), (3, "a3")])
    result = upsert(table, z, a)
    assert notes(table) == {1: "z3", 2: "a1", 3: "a3"}
    assert (result.assign.inserts, result.assign.updates, result.write.rows_written) == (3, 3, 3)
    upsert(table, a, z, batch="turned")
    assert notes(table) == {1: "z3", 2: "z2", 3: "a3"}


# --- whole files that cannot be used ----------------------------------------------------------------------------------


def test_files_that_are_not_what_they_should_be(table: Table, tmp_path: Path) -> None:
    cases: list[tuple[str, bytes, type[LakeIdxError], str]] = [
        ("empty.parquet", b"", InvalidInputError, "empty"),
        ("text.parquet", b"k,note\n1,a\n", CorruptFileError, "not a readable Parquet file"),
        ("other.csv", b"a,b\n1,2\n", InvalidInputError, "lacks the required columns k, note"),
        ("other.jsonl", b'{"a": 1}\n', InvalidInputError, "columns the table does not have: a"),
        ("broken.csv", b'k,note\n1,"a\n', InvalidInputError, "never closed"),
    ]
    good = tmp_path / "good.csv"
    good.write_text("k,note\n1,a\n")
    for name, data, kind, text in cases:
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(kind, match=text) as caught:
            upsert(table, good, path)
        assert caught.value.path == str(path)
    with pytest.raises(InvalidInputError, match="a folder, not a landing file; name the files in it"):
        upsert(table, tmp_path)
    with pytest.raises(NotFoundError, match=r"missing.csv: the landing file does not exist"):
        upsert(table, good, tmp_path / "missing.csv")
    with pytest.raises(InvalidInputError, match="at least one landing file"):
        upsert(table)
    assert table.snapshot is None
    upsert(table, good)
    assert notes(table) == {1: "a"}


def test_a_parquet_column_of_a_type_that_never_fits_names_file_and_column(table: Table, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"k": [{"x": 1}], "note": ["a"]}), path)
    with pytest.raises(InvalidInputError, match=r"f.parquet: column k: struct<x: int64> does not cast to BIGINT"):
        upsert(table, path)


@pytest.mark.slow
def test_rejected_rows_of_parquet_are_counted_by_row(table: Table, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    keys = [None if i == 140_000 else i for i in range(200_000)]
    pq.write_table(pa.table({"k": pa.array(keys, pa.int64()), "note": ["n"] * 200_000}), path)
    result = upsert(table, path)
    assert rejected(table, result) == [("f.parquet", 140_001, "null: column k must not be null")]
    assert result.write.rows_written == 199_999


# --- by reference ------------------------------------------------------------------------------------------------------


def full_rows(n: int) -> pa.Table:
    schema = pa.schema(
        [
            pa.field("k", pa.int64(), False),
            pa.field("amount", pa.decimal128(5, 2)),
            pa.field("day", pa.date32()),
            pa.field("tags", pa.list_(pa.field("element", pa.string()))),
            pa.field("note", pa.string(), False),
        ]
    )
    return pa.table({"k": range(n), "amount": [None] * n, "day": [None] * n, "tags": [["x"]] * n,
                     "note": [f"n{i}" for i in range(n)]}, schema=schema)  # fmt: skip


def test_a_file_that_fits_is_taken_by_reference_and_gives_the_same_rows(table: Table, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(full_rows(500), path, row_group_size=100)
    result = upsert(table, path)
    assert [p.by_reference for p in result.ingest.parts] == [True]
    staged = Table.create(f"{tmp_path}/wh/d.db/staged", SPEC)
    copy = tmp_path / "g.parquet"
    pq.write_table(full_rows(500).append_column("_kind", pa.array(["+I"] * 500)), copy)
    again = upsert(staged, copy)
    assert [p.by_reference for p in again.ingest.parts] == [False]
    assert table.scan().to_arrow().equals(staged.scan().to_arrow())


def test_a_landing_file_that_changed_after_ingest_is_refused(table: Table, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(full_rows(500), path)
    context = make_context(table.metadata, "b")
    run_ingest(context.files, table.schema, [str(path)], LandingOptions(), LocalRunner())
    pq.write_table(full_rows(501), path)
    with pytest.raises(InvalidInputError, match=r"f.parquet: batch .b. was ingested with other content"):
        upsert_files(context, [str(path)])
    assert table.snapshot is None


# ---- a large text file in shares gives the batch that the whole file gives -------------------------------------------


OPTIONS = {"bucket": "1"}


def landed(folder: Path, text: bytes, name: str, **options: Any) -> tuple[Table, BatchResult]:
    """A new table, and the file upserted into it."""
    folder.mkdir()
    table = make_table(folder, options=OPTIONS)
    file = folder / name
    file.write_bytes(text)
    context = make_context(table.metadata, "b", runner=LocalRunner(2))
    return table, upsert_files(context, [str(file)], LandingOptions(**options))


def both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, name: str, **options: Any
) -> tuple[tuple[Table, BatchResult], tuple[Table, BatchResult]]:
    """The file landed whole, and in shares."""
    whole = landed(tmp_path / "whole", text, name, **options)
    monkeypatch.setattr(ingest, "SHARE_BYTES", 150)
    return whole, landed(tmp_path / "shared", text, name, **options)


def csv(n: int) -> bytes:
    """Keys that come several times, in quotes over lines; some records that are no rows."""
    lines = [f'{k % 3},{k % 40},"v\n{k}"' if k % 7 else f"{k % 3},no number,{k}" for k in range(n)]
    return ("p,k,v\n" + "\r\n".join(lines)).encode()


@pytest.mark.slow
def test_csv_rows_rejects_and_the_later_row_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (whole, one), (shared, many) = both(tmp_path, monkeypatch, csv(200), "f.csv")
    assert content(shared) == content(whole)
    assert len(many.ingest.parts) > 5
    assert len(one.ingest.parts) == 1
    assert many.ingest.rows_in == one.ingest.rows_in == 200
    assert many.ingest.reject_reasons == one.ingest.reject_reasons
    paths = [r.ingest.rejected_path for r in (one, many)]
    assert all(paths)
    found = [read_rejected(t.store, p or "").to_pylist() for t, p in zip((whole, shared), paths, strict=True)]
    assert [(r["line"], r["reason"], r["row"]) for r in found[1]] == [
        (r["line"], r["reason"], r["row"]) for r in found[0]
    ]


@pytest.mark.slow
def test_changes_as_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def message(k: int) -> str:
        row = {"p": 1, "k": k % 30, "v": str(k)}
        return json.dumps({"before": row, "after": None, "op": "d"} if k % 5 == 0 else {"after": row, "op": "c"})

    text = "\n".join(message(k) for k in range(100)).encode()
    (whole, _), (shared, many) = both(tmp_path, monkeypatch, text, "f.jsonl", format="debezium")
    assert content(shared) == content(whole)
    assert len(many.ingest.parts) > 5


def test_a_column_that_only_some_shares_have_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"p": 1, "k": k, "v": "x"} if k < 3 else {"p": 1, "k": k} for k in range(60)]
    text = "\n".join(map(json.dumps, lines)).encode()
    (whole, _), (shared, _) = both(tmp_path, monkeypatch, text, "f.jsonl")
    assert content(shared) == content(whole)


def test_a_compressed_file_is_one_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    _, (shared, many) = both(tmp_path, monkeypatch, gzip.compress(csv(200)), "f.csv.gz")
    assert len(many.ingest.parts) == 1
    assert len(content(shared)) == len({(k % 3, k % 40) for k in range(200) if k % 7})


def test_a_file_that_changes_between_the_two_looks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f" / "f.csv"
    monkeypatch.setattr(ingest, "SHARE_BYTES", 150)
    monkeypatch.setattr(ingest, "cross_range", changing(file, cross_range))
    with pytest.raises(InvalidInputError, match="the landing file changed while it was read; run the batch again"):
        landed(tmp_path / "f", csv(200), "f.csv")
    assert Table.open(f"{tmp_path}/f/wh/d.db/t").metadata.snapshot_ids() == []


def changing(file: Path, look: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which lets the file grow when it is called."""

    def grown(*arguments: Any) -> Any:
        found = look(*arguments)
        with file.open("ab") as more:
            more.write(b"\r\n1,1,late")
        return found

    return grown
