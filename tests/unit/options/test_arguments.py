"""Arguments of other types: what has a natural meaning works, all else is one clear line and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeidx
from lakeidx.errors import InvalidInputError
from lakeidx.options.arguments import as_text, path_text, paths, texts, whole_number
from tests.kit.small_tables import table_spec

SPEC = table_spec("k INT, v STRING, w STRING", ["k"], options={"bucket": "-1"})
ROWS = pa.table({"k": pa.array([1], pa.int32()), "v": ["a"], "w": ["b"]})


@pytest.fixture
def table(tmp_path: Path) -> lakeidx.Table:
    made = lakeidx.Table.create(tmp_path / "d.db" / "t", SPEC)
    made.upsert(ROWS)
    return made


def test_converted_arguments() -> None:
    assert path_text(Path("/a/b")) == "/a/b"
    assert paths([Path("/a"), "b"], name="files") == ["/a", "b"]
    assert texts(iter(["a", "b"]), name="columns") == ("a", "b")
    assert as_text("a", name="tag") == "a"
    number = whole_number(np.int64(3), name="limit")
    assert (number, type(number)) == (3, int)


@pytest.mark.parametrize("value", [5, None, b"x", "", "  ", 1.5, ["/a"]])
def test_what_is_no_path(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="expected the path or URI of a table, not"):
        path_text(value)


def test_paths_of_python_lead_to_tables_and_files(table: lakeidx.Table, tmp_path: Path) -> None:
    landing = tmp_path / "more.parquet"
    pq.write_table(ROWS.set_column(0, "k", pa.array([2], pa.int32())), landing)
    again = lakeidx.Table.open(Path(table.uri))
    again.upsert_files([landing])
    assert lakeidx.Warehouse(tmp_path).tables() == ["d.t"]
    assert again.scan(columns=("k",)).to_arrow().column("k").to_pylist() == [1, 2]


def test_numbers_of_numpy_name_snapshots(table: lakeidx.Table) -> None:
    numbers: list[Any] = list(np.arange(2))
    zero, first = numbers
    assert table.scan(snapshot=first, limit=first).to_arrow().num_rows == 1
    assert table.changes(zero, first).to_arrow().num_rows == 1
    assert table.create_tag("first", snapshot=first).snapshot == 1


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "one file": (lambda t: t.upsert_files("landing.csv"), "files must be a list of paths, not 'landing.csv'"),
    "a file": (lambda t: t.upsert_files([5]), "expected the path or URI of a file, not 5"),
    "no rows": (lambda t: t.upsert([]), "an empty list has no columns"),
    "no new rows": (lambda t: t.overwrite([], whole_table=True), "an empty list has no columns"),
    "no keys": (lambda t: t.delete([]), "an empty list has no columns"),
    "a row": (lambda t: t.upsert([{"k": 1}, 5]), "row 2 of the list is no dictionary, but int"),
    "a key": (lambda t: t.lookup([1]), "row 1 of the list is no dictionary, but int"),
    "rows": (lambda t: t.upsert("x"), "or a list of dictionaries, not the text 'x': a condition is given as where="),
    "limit": (lambda t: t.scan(limit="1"), "limit must be a whole number, not '1'"),
    "where": (lambda t: t.scan(where=5), "where must be SQL text or a predicate, not 5"),
    "delete": (lambda t: t.delete(where=5), "where must be SQL text or a predicate, not 5"),
    "snapshot": (lambda t: t.scan(snapshot="1"), "snapshot must be a whole number, not '1'"),
    "tag": (lambda t: t.scan(tag=5), "tag must be a text, not 5"),
    "timestamp": (lambda t: t.scan(timestamp=5.5), "expected a time as text, datetime or epoch milliseconds, not 5.5"),
    "columns": (lambda t: t.scan(columns=5), "columns must be a list of texts, not 5"),
    "a column": (lambda t: t.scan(columns=[5]), "columns: each must be a text, not 5"),
    "state": (lambda t: t.changes(None), "a snapshot id must be a whole number, not None"),
    "name": (lambda t: t.create_tag(5), "the name of a tag must be a text, not 5"),
    "tagged": (lambda t: t.create_tag("x", snapshot="1"), "snapshot must be a whole number, not '1'"),
    "age": (lambda t: t.orphans(older_than=5), "a length of time must be a text, not 5"),
    "rollback": (lambda t: t.rollback(snapshot="1"), "snapshot must be a whole number, not '1'"),
    "add": (lambda t: t.alter(add=5), "add must be a mapping of names, not 5"),
    "drop": (lambda t: t.alter(drop="vw"), "drop must be a list of texts, not 'vw'"),
    "reset": (lambda t: t.alter(reset="bucket"), "reset must be a list of texts, not 'bucket'"),
    "partitions": (lambda t: t.compact(partitions="p=1"), "partitions must be a list of texts, not 'p=1'"),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_an_argument_of_another_type_is_one_line(
    table: lakeidx.Table, call: Callable[[lakeidx.Table], Any], message: str
) -> None:
    before = sorted(Path(table.uri).rglob("*"))
    with pytest.raises(InvalidInputError) as caught:
        call(table)
    assert message in str(caught.value)
    assert sorted(Path(table.uri).rglob("*")) == before
    assert lakeidx.Table.open(table.uri).schema.id == 0


STORES: dict[str, Callable[[str, Any], Any]] = {
    "open": lakeidx.Table.open,
    "create": lambda uri, options: lakeidx.Table.create(uri, SPEC, options),
    "system": lambda uri, options: lakeidx.SystemTable.open(f"{uri}$audit_log", options),
    "warehouse": lakeidx.Warehouse,
}


@pytest.mark.parametrize("call", STORES.values(), ids=STORES)
@pytest.mark.parametrize("uri", ["s3://bucket/d.db/t", "t"])
@pytest.mark.parametrize(
    "value", ["region=eu", "", 5, 0, True, b"region", [("secret", "abc")], [], {5: "eu"}], ids=repr
)
def test_options_of_a_store_are_a_mapping(
    tmp_path: Path, call: Callable[[str, Any], Any], uri: str, value: Any
) -> None:
    """Of no store, lest a mistake shows only once the table is in an object store."""
    if uri == "t":
        uri = f"{tmp_path}/d.db/t"
    with pytest.raises(
        InvalidInputError, match="storage_options must be None or a mapping of texts to values"
    ) as caught:
        call(uri, value)
    assert "abc" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert uri in str(caught.value)
    assert not [*tmp_path.iterdir()]


NAMED: dict[str, Callable[[lakeidx.Warehouse, Any], Any]] = {
    "create": lambda w, name: w.create(name, SPEC),
    "table": lambda w, name: w.table(name),
    "item": lambda w, name: w[name],
    "contains": lambda w, name: name in w,
    "drop": lambda w, name: w.drop(name),
    "path": lambda w, name: w.path(name),
}


@pytest.mark.parametrize("call", NAMED.values(), ids=NAMED)
@pytest.mark.parametrize("name", [5, None, Path("d.t"), b"d.t"], ids=repr)
def test_names_in_a_warehouse_are_texts(
    table: lakeidx.Table, tmp_path: Path, call: Callable[[lakeidx.Warehouse, Any], Any], name: Any
) -> None:
    with pytest.raises(InvalidInputError, match=r"a text, not|database\.table, not") as caught:
        call(lakeidx.Warehouse(tmp_path), name)
    assert "\n" not in str(caught.value)
    assert lakeidx.Warehouse(tmp_path).tables() == ["d.t"]
    with pytest.raises(InvalidInputError, match="database must be a text, not 5"):
        lakeidx.Warehouse(tmp_path).tables(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["t$branch_x", "t$audit_log", "t$"])
def test_a_name_of_a_branch_or_system_table_is_not_created(tmp_path: Path, name: str) -> None:
    """It was, and could not be opened any more."""
    with pytest.raises(InvalidInputError, match=rf"call the table otherwise than '{re.escape(name)}'"):
        lakeidx.Warehouse(tmp_path).create(f"d.{name}", SPEC)
    with pytest.raises(InvalidInputError, match=rf"call the table otherwise than '{re.escape(name)}'"):
        lakeidx.Table.create(tmp_path / "d.db" / name, SPEC)
    assert not [*tmp_path.iterdir()]
