"""Values came in as they were, whatever length their column declares: Spark pads CHAR keys, so that one key was two rows."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx.cli.main import app
from lakeidx.errors import InvalidInputError
from lakeidx.landing.cast_rows import AS_STORED

#: Type, values as given, as stored; None is a row that is rejected. Text as Spark 4.0 with Paimon's connector of 2.1 stores it.
CASES: list[tuple[str, list[Any], list[Any]]] = [
    ("CHAR(3)", ["a", "ab ", "abc", "abc  ", "abcd", "", "ü😀", None],
     ["a  ", "ab ", "abc", "abc", None, "   ", "ü😀 ", "null"]),
    ("VARCHAR(3)", ["a", "ab ", "abc  ", "abcd", "abc d", "", None], ["a", "ab ", "abc", None, None, "", "null"]),
    ("STRING", ["a  ", "abcd"], ["a  ", "abcd"]),
    ("BINARY(2)", [b"a", b"ab", b"abc"], [b"a", b"ab", None]),
    ("VARBINARY(2)", [b"", b"ab", b"abc"], [b"", b"ab", None]),
    ("TIMESTAMP(0)", [datetime(1969, 12, 31, 23, 59, 58), datetime(2024, 1, 1, 0, 0, 0, 1000), None],
     [datetime(1969, 12, 31, 23, 59, 58), None, "null"]),
    ("TIMESTAMP(5)", [datetime(1969, 1, 1, 0, 0, 0, 10), datetime(1969, 1, 1, 0, 0, 0, 11)],
     [datetime(1969, 1, 1, 0, 0, 0, 10), None]),
]  # fmt: skip


def _table(folder: Path, type_text: str, *, key: bool = False, **options: str) -> lakeidx.Table:
    fields = [{"name": "k", "type": type_text if key else "INT"}, {"name": "v", "type": "INT" if key else type_text}]
    return lakeidx.Table.create(
        f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1", **options}}
    )


@pytest.mark.parametrize("form", ["memory", "parquet", "csv"])
@pytest.mark.parametrize(("type_text", "given", "stored"), CASES, ids=[c[0] for c in CASES])
def test_values_are_fitted_to_what_their_column_declares(
    tmp_path: Path, type_text: str, given: list[Any], stored: list[Any], form: str
) -> None:
    """Also those of a Parquet file whose types fit, which is not copied otherwise."""
    table = _table(tmp_path, type_text)
    kind = table.scan().to_arrow().schema.field("v").type
    rows = pa.table({"k": pa.array(range(len(given)), pa.int32()), "v": pa.array(given, kind)})
    wanted = {i: None if v == "null" else v for i, v in enumerate(stored) if v is not None}
    bad = [i for i, v in enumerate(stored) if v is None]
    if form == "memory":
        for i in bad:
            with pytest.raises(InvalidInputError, match=r"cast: column v is not "):
                table.upsert(rows.slice(i, 1))
        table.upsert(rows.filter(pa.array([v is not None for v in stored])))
    else:
        path = tmp_path / f"rows.{form}"
        if form == "parquet":
            pq.write_table(rows, path)
        else:
            shown = [v.hex() if isinstance(v, bytes) else "" if v is None else f'"{v}"' for v in given]
            path.write_text("k,v\n" + "".join(f"{i},{v}\n" for i, v in enumerate(shown)), encoding="utf-8")
        result = table.upsert_files([path])
        assert result.ingest.reject_reasons == ({"cast": len(bad)} if bad else {})
    found = {r["k"]: r["v"] for r in table.scan().to_arrow().to_pylist()}
    if form == "csv" and "BINARY" in type_text:
        wanted = {i: v or None for i, v in wanted.items()}  # nothing between commas is null
    assert found == wanted


@pytest.mark.parametrize("bucket", ["-1", "4"])
def test_a_key_is_one_row_however_it_is_written_and_asked_for(tmp_path: Path, bucket: str) -> None:
    table = _table(tmp_path, "CHAR(3) NOT NULL", key=True, bucket=bucket)
    table.upsert(pa.table({"k": ["a", "ab"], "v": [1, 2]}))
    table.upsert(pa.table({"k": ["a  ", "ab "], "v": [3, 4]}))
    assert table.scan().to_arrow().to_pylist() == [{"k": "a  ", "v": 3}, {"k": "ab ", "v": 4}]
    for asked in ("a", "a ", "a  "):
        assert table.lookup(pa.table({"k": [asked]})).column("v").to_pylist() == [3]
        assert table.scan(where=f"k = '{asked}'").to_arrow().num_rows == 1
    file = tmp_path / "keys.jsonl"
    file.write_text('{"k": "a"}\n{"k": "much too long"}\n')
    answers = CliRunner().invoke(app, ["lookup", table.uri, "--keys", str(file)]).stdout.splitlines()
    assert [json.loads(a) for a in answers] == [{"k": "a  ", "v": 3}, None]
    assert table.delete(pa.table({"k": ["ab"]})) is not None
    assert table.scan(columns=["k"]).to_arrow().column("k").to_pylist() == ["a  "]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("k = 'b'", "b"), ("k <> 'b'", "ac"), ("k < 'b'", "a"), ("k <= 'b'", "ab"), ("k > 'b'", "c"), ("k >= 'b'", "bc"),
        ("k IN ('a ', 'c')", "ac"), ("k NOT IN ('a', 'c')", "b"), ("k BETWEEN 'a' AND 'b'", "ab"), ("k LIKE 'b%'", "b"),
        ("NOT k < 'b'", "bc"), ("k = 'bb'", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("padded", [True, False])
def test_conditions_hold_for_both_forms(tmp_path: Path, where: str, keys: str, padded: bool) -> None:
    """Java's API, and lakeidx 0.1.0, store CHAR without blanks."""
    table = _table(tmp_path, "CHAR(3) NOT NULL", key=True)
    rows = pa.table({"k": ["a", "b", "c"], "v": pa.array([1, 2, 3], pa.int32())})
    table.upsert(rows if padded else rows.replace_schema_metadata(AS_STORED))
    found = table.scan(where=where).to_arrow().column("k").to_pylist()
    assert found == [k + "  " * padded for k in keys]


def test_rows_that_do_not_fit_can_be_deleted(tmp_path: Path) -> None:
    """What another writer stored goes under the key that it has."""
    table = _table(tmp_path, "CHAR(3) NOT NULL", key=True)
    rows = pa.table({"k": ["a", "b", "long as Java stores it"], "v": pa.array([1, 2, 3], pa.int32())})
    table.upsert(rows.replace_schema_metadata(AS_STORED))
    assert table.delete(where="k = 'a' OR v = 3") is not None
    assert table.scan().to_arrow().to_pylist() == [{"k": "b", "v": 2}]
