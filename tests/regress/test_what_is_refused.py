"""Input that is refused, with a line that says what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx import Table
from lakeidx.cli.main import app
from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakeidx.format.schema import rules
from lakeidx.format.schema.changes import evolve
from lakeidx.format.schema.option_changes import set_options
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.jobs import compaction
from lakeidx.landing.read import LandingOptions
from lakeidx.storage import LocalStore
from tests.kit.small_tables import filled_table, table_spec

# A column ``_kind`` was accepted and then its values were taken for row kinds; ``_FOUND`` came twice out of a lookup.


def _create(folder: Path, column: str) -> lakeidx.Table:
    fields = [{"name": "id", "type": "INT"}, {"name": column, "type": "STRING"}]
    return lakeidx.Table.create(
        f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}}
    )


@pytest.mark.parametrize("column", ["_kind", "_FOUND"])
def test_create_refuses_the_name(tmp_path: Path, column: str) -> None:
    """One line that names the column."""
    with pytest.raises(InvalidInputError, match=f"column name '{column}' is reserved"):
        _create(tmp_path, column)
    assert not (tmp_path / "d.db" / "t" / "schema").exists()


def _as_if_java_had_made_it(folder: Path, column: str) -> lakeidx.Table:
    """A table of another writer: the column gets its name in the schema file."""
    _create(folder, "x")
    schema = folder / "d.db" / "t" / "schema" / "schema-0"
    text = json.loads(schema.read_text())
    text["fields"][1]["name"] = column
    schema.write_text(json.dumps(text))
    return lakeidx.Table.open(f"{folder}/d.db/t")


def test_rows_for_such_a_table_are_refused(tmp_path: Path) -> None:
    """No row is lost in silence, whichever way it comes in; nothing is committed."""
    table = _as_if_java_had_made_it(tmp_path, "_kind")
    landing = tmp_path / "rows.jsonl"
    landing.write_text('{"id":1,"_kind":"-D"}\n{"id":2,"_kind":"other"}\n')
    with pytest.raises(InvalidInputError, match="has a column '_kind'"):
        table.upsert_files([str(landing)])
    with pytest.raises(InvalidInputError, match="has a column '_kind'"):
        table.upsert(pa.table({"id": [1], "_kind": ["-D"]}))
    assert table.snapshot is None


def test_lookups_never_answer_a_name_twice(tmp_path: Path) -> None:
    """A table of another writer with a column ``_FOUND`` takes rows and is scanned, lookups say what to do."""
    table = _as_if_java_had_made_it(tmp_path, "_FOUND")
    table.upsert(pa.table({"id": [1], "_FOUND": ["x"]}))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "_FOUND": "x"}]
    with pytest.raises(InvalidInputError, match="has a column '_FOUND'"):
        table.lookup(pa.table({"id": [1]}))


# Columns without a name: `merge_schema` added the header ``,a`` of a CSV file as column ``''``, and Java could not open the table.
#
# Java Paimon wants a character that is not blank in every name (RowType.validateFields), and different names, also inside of
# columns.

SPEC: dict[str, Any] = table_spec("id INT, c STRING", ["id"], options={"bucket": "1"})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(f"{tmp_path}/d.db/t", SPEC)


def refused(table: Table, place: int, name: str) -> Any:
    return pytest.raises(InvalidInputError, match=re.escape(f"column {place} has no name ({name!r})"))


@pytest.mark.parametrize("policy", ["refuse", "add", "widen"])
@pytest.mark.parametrize(("header", "place"), [(",id,c", 1), ("id,c,,", 3), ("id,c, ", 3), ("id,c,\u3000", 3)])
def test_headers_of_csv(table: Table, header: str, place: int, policy: str, tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    names = header.split(",")
    file.write_text(header + "\n" + ",".join({"id": "1", "c": "x"}.get(n, "0") for n in names) + "\n")
    with refused(table, place, names[place - 1]):
        table.upsert_files([file], LandingOptions(merge_schema=policy))
    assert table.schema.field_names == ("id", "c")
    # The way out that the message names.
    table.upsert_files([file], LandingOptions(merge_schema=policy, ignore_extra=True))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "c": "x"}]


@pytest.mark.parametrize("policy", ["refuse", "add"])
def test_files_of_other_formats_and_rows_in_memory(table: Table, policy: str, tmp_path: Path) -> None:
    options = LandingOptions(merge_schema=policy)
    (tmp_path / "f.jsonl").write_text('{"id": 1, "c": "x", "": 1}\n')
    indexed = pd.DataFrame({"id": [0, 1], "c": ["a", "b"]}).query("id > 0")
    indexed.to_parquet(tmp_path / "f.parquet")
    unnamed = pa.table({"id": [1], "c": ["x"], "\t": [1]})
    with pa.OSFile(str(tmp_path / "f.arrow"), "wb") as sink, pa.ipc.new_file(sink, unnamed.schema) as writer:
        writer.write_table(unnamed)
    for name, column in (("f.jsonl", ""), ("f.parquet", "__index_level_0__"), ("f.arrow", "\t")):
        with refused(table, 3, column):
            table.upsert_files([tmp_path / name], options)
    for rows, column in (
        (indexed, "__index_level_0__"),
        (pl.DataFrame({"id": [1], "c": ["x"], "": [1]}), ""),
        ([{"id": 1, "c": "x", " ": 1}], " "),
        (unnamed, "\t"),
    ):
        with refused(table, 3, column):
            table.upsert(rows, merge_schema=policy)
    # By its line in JSON that comes later.
    (tmp_path / "g.jsonl").write_text('{"id": 1, "c": "x"}\n{"id": 2, "c": "x", "": 1}\n')
    if policy == "add":
        with refused(table, 3, ""):
            table.upsert_files([tmp_path / "g.jsonl"], options)
    assert table.schema.field_names == ("id", "c")


def test_an_index_with_a_name_of_the_table_is_a_column(table: Table) -> None:
    table.upsert(pd.DataFrame({"id": [1, 2], "c": ["a", "b"]}).set_index("id"))
    assert table.scan().to_arrow().num_rows == 2


def test_a_table_that_has_such_a_column_takes_it(tmp_path: Path) -> None:
    spec = {**SPEC, "fields": [*SPEC["fields"], {"name": "__index_level_0__", "type": "BIGINT"}]}
    table, file = Table.create(f"{tmp_path}/d.db/i", spec), tmp_path / "f.parquet"
    pq.write_table(pa.table({"id": [1], "c": ["x"], "__index_level_0__": [7]}), file)
    table.upsert_files([file])
    assert table.scan().to_arrow().column(2).to_pylist() == [7]


def inside(*names: str) -> dict[str, Any]:
    fields = [{"id": i, "name": n, "type": "INT"} for i, n in enumerate(names)]
    return {"name": "r", "type": {"type": "ARRAY", "element": {"type": "ROW", "fields": fields}}}


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({"name": "\u2003", "type": "INT"}, r"fields\[2\] must be an object with a 'name'"),
        (inside("a", ""), r"field 2 of r has no name \(''\)"),
        (inside("a", "b", "a"), "field 3 of r: the name 'a' is there twice"),
        ({"name": "\ud800", "type": "INT"}, r"column 3: the name '\\ud800' is not valid Unicode"),
        ({"name": "r", "type": {"type": "ROW", "fields": [{"id": 0, "name": 5, "type": "INT"}]}}, "not 5"),
    ],
)
def test_schemas(field: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Table.create(f"{tmp_path}/d.db/u", {**SPEC, "fields": [*SPEC["fields"], field]})


@pytest.mark.parametrize("name", ["", " ", "\u3000"])
def test_alterations(table: Table, name: str) -> None:
    with refused(table, 3, name):
        table.alter(add={name: "INT"})
    with refused(table, 2, name):
        table.alter(rename={"c": name})
    with pytest.raises(InvalidInputError, match="field 1 of r has no name"):
        table.upsert(pa.table({"id": [1], "c": ["x"], "r": [{name: 1}]}), merge_schema="add")
    assert table.schema.field_names == ("id", "c")


@pytest.mark.parametrize("change", [{"rename": {"": "n"}}, {"drop": [""]}])
def test_a_table_that_got_one_before_is_named_with_the_way_out(
    tmp_path: Path, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(rules, "_check_siblings", lambda fields, inside: None)
        table = Table.create(f"{tmp_path}/d.db/n", SPEC)
        table.alter(add={"": "INT"})
        table.upsert(pa.table({"id": [1], "c": ["x"], "": pa.array([7], pa.int32())}))
    fault = next(r for r in table.verify().results if r.name == "files_readable")
    assert not fault.passed
    assert "column 3 has no name (''); Java Paimon cannot open the table: name it" in str(fault.sample)
    table = Table.open(table.uri)
    table.alter(**change)
    assert table.verify().passed
    assert table.scan().to_arrow().num_rows == 1
    if "rename" in change:
        assert table.scan().to_arrow().column("n").to_pylist() == [7]


# Misspelt option names were accepted: ``bukcet`` made a table of dynamic buckets, and nobody was told (newcomer 2.14).

FIELDS = [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]


def spec(**options: str) -> dict[str, object]:
    return {"fields": FIELDS, "primaryKeys": ["id"], "options": {k.replace("_", "-"): v for k, v in options.items()}}


def test_create_names_the_option_that_was_meant(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"unknown option 'bukcet'; did you mean 'bucket'\?"):
        Table.create(str(tmp_path / "t"), spec(bukcet="4"))
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("name", "meant"), [("index.tpye", "index.type"), ("lakeidx.hash-index.shrnk", "lakeidx.hash-index.shrink"),
                        ("hoodie.index.bloom.fp", "hoodie.index.bloom.fpp")]
)  # fmt: skip
def test_index_options_are_looked_at_too(tmp_path: Path, name: str, meant: str) -> None:
    with pytest.raises(InvalidInputError, match=f"unknown option '{name}'; did you mean '{meant}'"):
        Table.create(str(tmp_path / "t"), spec(**{name: "1"}))


def test_options_of_other_programs_are_taken(tmp_path: Path) -> None:
    options = {"sink.parallelism": "4", "write.merge-schema": "true", "hoodie.datasource.write.operation": "upsert"}
    table = Table.create(str(tmp_path / "t"), spec(**options))
    assert options.items() <= dict(table.schema.options).items()


def test_a_table_that_another_program_gave_an_unknown_option_opens_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = str(tmp_path / "t")
    Table.create(uri, spec(bucket="1"))
    file = tmp_path / "t" / "schema" / "schema-0"
    schema = json.loads(file.read_text())
    schema["options"]["bukcet"] = "4"
    file.write_text(json.dumps(schema))
    opened = Table.open(uri)
    assert [r.getMessage() for r in caplog.records] == [f"{uri}: unknown option 'bukcet'; did you mean 'bucket'?"]
    # Changing something else keeps it.
    assert evolve(opened.schema, [set_options({"write-only": "true"})]).options["bukcet"] == "4"


@pytest.mark.parametrize("name", ["pk-fm.index.columns", "global-index.btree.index-columns"])
def test_a_table_with_an_unknown_option_about_an_index_is_read_only(tmp_path: Path, name: str) -> None:
    """Such a table was written and compacted, after a warning."""
    uri = str(tmp_path / "t")
    Table.create(uri, spec(bucket="1")).upsert([{"id": 1, "v": "a"}])
    file = tmp_path / "t" / "schema" / "schema-0"
    schema = json.loads(file.read_text())
    schema["options"][name] = "v"
    file.write_text(json.dumps(schema))
    table = Table.open(uri)
    assert table.scan().to_arrow().num_rows == 1
    changes: list[Callable[[], object]] = [
        lambda: table.upsert([{"id": 2, "v": "b"}]),
        lambda: table.compact(full=True),
        lambda: table.alter(drop=["v"]),
        lambda: table.alter(rename={"v": "w"}),
        lambda: table.alter(add={"n": "INT"}),
    ]
    for change in changes:
        with pytest.raises(UnsupportedError, match=f"is refused: {name}=v: .* set lakeidx.accepted-options={name}"):
            change()
    assert table.schema.id == 0
    table.alter(set={"lakeidx.accepted-options": name}, add={"n": "INT"})
    table.alter(drop=["n"])
    table.upsert([{"id": 2, "v": "b"}])
    table.compact(full=True)
    assert Table.open(uri).scan().to_arrow().num_rows == 2


# A data file whose VARIANT column is shredded ended in an error of Arrow about the number of fields.


def test_one_line_names_the_column_and_the_file(tmp_path: Path) -> None:
    schema = new_schema({"fields": [{"name": "v", "type": "VARIANT"}], "options": {"bucket": "-1"}})
    shredded = pa.StructArray.from_arrays(
        [pa.array([b"\x01"]), pa.array([None], pa.binary()), pa.array([7], pa.int64())],
        names=["metadata", "value", "typed_value"],
    )
    path = tmp_path / "data-0.parquet"
    pq.write_table(pa.table({"v": shredded}), path)
    with pytest.raises(UnsupportedError, match="column 'v': a shredded VARIANT") as caught:
        list(read_data_file(LocalStore(str(tmp_path)), str(path), None, schema, schema))
    assert caught.value.path == str(path)


# A negative limit gave an empty table, and one text in place of a list of columns the columns named by its letters.


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"limit": -1}, "limit must be 0 or more rows, not -1"), ({"columns": "kv"}, "columns must be a list of texts, not 'kv'"),
        ({"columns": ["w"]}, "no column 'w'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("state", [{}, {"incremental": (0, None)}, {"incremental": (0, None), "mode": "diff"}])
def test_they_are_refused(tmp_path: Path, asked: dict[str, Any], said: str, state: dict[str, Any]) -> None:
    made = filled_table(tmp_path, [(1, 1, "a")])
    table = Table.open(made.uri)
    assert table.scan(columns=["k", "v"], limit=0, **state).to_arrow().num_rows == 0
    assert table.scan(columns=["k", "v"], limit=1, **state).to_arrow().num_rows == 1
    with pytest.raises(InvalidInputError, match=said):
        table.scan(**asked, **state)


# ``--partition`` with a slip in it, for one that no data is in, did nothing and said that all was well.


@pytest.fixture
def table_partition(tmp_path: Path) -> Table:
    made = filled_table(tmp_path, [(1, 1, "a"), (10, 1, "a")])
    return Table.open(made.uri)


@pytest.mark.parametrize(
    "command", [["compact"], ["compact", "--dry-run"], ["lookup-store"], ["index", "rebuild"], ["index", "resize"]]
)
def test_commands_name_it_and_those_like_it(table_partition: Table, command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, table_partition.uri, "--partition", "p=1", "--partition", "p=11"])
    assert result.exit_code == 2
    assert "--partition 'p=11' does not exist; did you mean 'p=1' or 'p=10'?" in result.stderr


def test_methods_name_it(table_partition: Table) -> None:
    for method in (
        table_partition.compact,
        table_partition.build_lookup_store,
        table_partition.rebuild_index,
        table_partition.resize_rings,
    ):
        with pytest.raises(NotFoundError, match="'p=11' does not exist"):
            method(partitions=["p=11"])


def test_a_job_passes_over_what_may_have_expired(table_partition: Table, capsys: pytest.CaptureFixture[str]) -> None:
    given = [table_partition.uri, "--engine", "local", "--full", "--partition", "p=1", "--partition", "p=11"]
    assert compaction.main(given) == 0
    assert json.loads(capsys.readouterr().out)["buckets"] == 1


# A clause of a merge whose action was not understood deleted the rows.


@pytest.mark.parametrize(
    "clause",
    ["MATCHED THEN DO NOTHING", "NOT MATCHED THEN DELETE", "NOT MATCHED THEN UPDATE SET v = 1", "MATCHED THEN INSERT *",
     "NOT MATCHED THEN INSERT (k, v) VALUES (source.k)", "NOT MATCHED BY SOURCE THEN INSERT *"],
)  # fmt: skip
def test_other_actions_are_refused(tmp_path: Path, clause: str) -> None:
    table = Table.create(tmp_path / "d.db" / "t", {**table_spec("k INT, v INT", ["k"]), "options": {"bucket": "1"}})
    with pytest.raises(InvalidInputError):
        table.merge([{"k": 1, "v": 2}], on=["k"]).when(clause)
