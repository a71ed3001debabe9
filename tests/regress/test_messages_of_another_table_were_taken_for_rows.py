"""A feed with the messages of two tables put the rows, and the deletes, of both into one table by their keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx.cli.main import app
from lakeidx.errors import InvalidInputError, RejectedRowsError
from lakeidx.landing.types import LandingOptions
from lakeidx.pipeline_file.model import parse_pipeline

FORMATS = ("debezium", "maxwell", "canal", "ogg", "dms-json")


def message(name: str, table: str | None, op: str, row: dict[str, Any]) -> dict[str, Any]:
    """A change as a tool writes it; `op` is c or d, the database is ``shop``."""
    long = {"c": "insert", "d": "delete"}[op]
    place = {} if table is None else {"database": "shop", "table": table}
    if name == "debezium":
        source = {} if table is None else {"source": {"db": "shop", "schema": None, "table": table}}
        return {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row, **source}
    if name == "maxwell":
        return {**place, "type": long, "data": row}
    if name == "canal":
        return {**place, "type": long.upper(), "data": [{n: str(v) for n, v in row.items()}], "old": None}
    if name == "ogg":
        named = {} if table is None else {"table": f"shop.{table}"}
        return {**named, "op_type": {"c": "I", "d": "D"}[op], ("before" if op == "d" else "after"): row}
    schema = {} if table is None else {"schema-name": "shop", "table-name": table}
    return {"metadata": {"operation": long, **schema}, "data": row}


def make(folder: Path) -> lakeidx.Table:
    fields = [{"name": "id", "type": "INT NOT NULL"}, {"name": "table", "type": "STRING"}]
    return lakeidx.Table.create(
        f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}}
    )


def write(folder: Path, messages: list[Any], **how: Any) -> str:
    file = folder / f"f{len(list(folder.glob('f*')))}.json"
    file.write_text("".join(m if isinstance(m, str) else json.dumps(m, **how) + "\n" for m in messages))
    return str(file)


def ids(table: lakeidx.Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("how", [{}, {"separators": (",", ":")}])
@pytest.mark.parametrize("spoiled", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_one_table_of_a_feed_is_read(tmp_path: Path, name: str, spoiled: bool, how: dict[str, Any]) -> None:
    """The other tables have other columns, and other types of the same; a column may be named like a field of the message."""
    table = make(tmp_path)
    messages: list[Any] = [
        message(name, "customers", "c", {"id": 7, "table": "orders"}),
        message(name, "orders", "d", {"id": 7, "table": "customers"}),
        message(name, "orders", "c", {"id": "text", "price": [1], "table": {"table": "customers"}}),
        message(name, "customers", "c", {"id": 8, "table": "customers"}),
        *(["no json\n"] if spoiled else []),
    ]
    file = write(tmp_path, messages, **how)
    with pytest.raises(InvalidInputError) as refused:
        table.upsert_files([file], LandingOptions(name))
    assert "several tables of the source (shop.customers, shop.orders)" in str(refused.value)
    assert "landing.source (--source shop.customers)" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert (ids(table), table.snapshot) == ([], None)
    for source in ("shop.customers", "customers"):
        result = table.upsert_files([file], LandingOptions(name, source=(source,)))
        assert result.ingest.skipped == {"messages of other tables": 2}
        assert result.ingest.rows_rejected == int(spoiled)
        assert ids(table) == [7, 8]
    if spoiled:
        assert result.ingest.rows_in == 3


@pytest.mark.parametrize("name", FORMATS)
def test_tables_over_files_lists_of_tables_and_names_that_are_not_there(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path)
    one, two = (write(tmp_path, [message(name, t, "c", {"id": i, "table": t})]) for i, t in enumerate(("a", "b")))
    with pytest.raises(InvalidInputError, match=r"several tables of the source \(shop\.a, shop\.b\)"):
        table.upsert_files([one, two], LandingOptions(name))
    assert ids(table) == []
    table.upsert_files([one, two], LandingOptions(name, source=("a", "shop.b")))
    assert ids(table) == [0, 1]
    caplog.clear()
    assert table.upsert_files([one, two], LandingOptions(name, source=("nothere",))).ingest.rows_in == 0
    assert [r.message for r in caplog.records if r.levelname == "WARNING"] == [
        "none of 2 messages is of source nothere"
    ]
    unnamed = [message(name, None, "c", {"id": 5, "table": "x"}), message(name, "a", "c", {"id": 6, "table": "x"})]
    file = write(tmp_path, unnamed)
    result = table.upsert_files([file], LandingOptions(name, source=("a",)))
    assert (result.ingest.rows_rejected, ids(table)) == (1, [0, 1, 6])
    assert table.upsert_files([file], LandingOptions(name)).ingest.rows_rejected == 0
    with pytest.raises(RejectedRowsError, match="source: the message does not say of which table it is"):
        table.upsert_files([file], LandingOptions(name, source=("other",)))
    nothing = table.upsert_files([one, two], LandingOptions(name, source=("other",)))
    assert (nothing.as_dict()["rows"], nothing.as_dict()["skipped"]) == (0, 2)


def test_a_name_of_two_tables_and_formats_without_names(tmp_path: Path) -> None:
    table = make(tmp_path)
    messages = [{**message("maxwell", "a", "c", {"id": 1, "table": "x"}), "database": d} for d in ("one", "two")]
    file = write(tmp_path, messages)
    with pytest.raises(
        InvalidInputError, match=r"a is the name of several tables of the source: write one of one\.a, two\.a"
    ):
        table.upsert_files([file], LandingOptions("maxwell", source=("a",)))
    plain = write(tmp_path, [{"id": 1, "table": "x"}])
    for format_ in ("jsonl", "dms"):
        with pytest.raises(InvalidInputError, match="source is for messages"):
            table.upsert_files([plain], LandingOptions(format_, source=("a",)))


def test_the_command_and_the_pipeline_file(tmp_path: Path) -> None:
    table = make(tmp_path)
    messages = [message("debezium", t, "c", {"id": i, "table": "x"}) for i, t in enumerate(("a", "b"))]
    file = write(tmp_path, messages)
    refused = CliRunner().invoke(app, ["upsert", table.uri, file, "--format", "debezium"])
    assert refused.exit_code == 2
    assert "--source shop.a" in refused.output
    assert (
        CliRunner().invoke(app, ["upsert", table.uri, file, "--format", "debezium", "--source", "shop.b"]).exit_code
        == 0
    )
    assert ids(table) == [1]
    text = (
        "table: d.t\nwarehouse: {0}/lake\nlanding: {{path: {0}/in, format: {1}, source: {2}}}\n"
        "fields: [{{name: id, type: INT}}]\nprimaryKeys: [id]\noptions: {{bucket: 1}}\n"
    )
    for word, source in (("shop.a", ("shop.a",)), ("[shop.a, shop.b]", ("shop.a", "shop.b"))):
        assert parse_pipeline(text.format(tmp_path, "canal", word), path="p.yaml").landing_options().source == source
    with pytest.raises(InvalidInputError, match="source is for messages"):
        parse_pipeline(text.format(tmp_path, "csv", "shop.a"), path="p.yaml")
