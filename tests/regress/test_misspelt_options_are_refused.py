"""Misspelt option names were accepted: ``bukcet`` made a table of dynamic buckets, and nobody was told (newcomer 2.14)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.format.schema.changes import evolve, set_options

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
