"""Rows as files and messages have them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx import LandingOptions
from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.batch.stages import ingest
from lakeidx.cli.main import app
from lakeidx.errors import InvalidInputError, RejectedRowsError
from lakeidx.landing.key_rows import read_key_rows
from lakeidx.landing.read import read_landing
from lakeidx.pipeline_file.model import parse_pipeline
from lakeidx.storage import open_store
from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.s3_server import S3Server, s3_server
from tests.kit.small_tables import SPEC, content, make_table, table_spec
from tests.kit.upserts import upsert_files

# A JSON object or array in a STRING column had its numbers changed to strings.

_TEXTS = [
    '{"price":12.50,"n":1,"tags":[1,2]}',
    '[1,2.50,true,null,1e400,-0.0,12345678901234567890123456789]',
    '{"a":{"b":"ä\\u0041","c":{}},"d":[]}',
    '[{"x":  1 , "y":[ ]}]',
]  # fmt: skip


@pytest.mark.parametrize("text", _TEXTS)
def test_numbers_stay_numbers(tmp_path: Path, text: str) -> None:
    """What is stored is the JSON that was written: the same numbers digit by digit, the same strings."""
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t",
        table_spec("id INT, s STRING", ["id"], options={"bucket": "1"}),
    )
    landing = tmp_path / "rows.jsonl"
    landing.write_text(f'{{"id":1,"s":{text}}}\n{{"id":2,"s":"plain"}}\n{{"id":3,"s":7.10}}\n')
    table.upsert_files([str(landing)])
    found = {r["id"]: r["s"] for r in table.scan().to_arrow().to_pylist()}
    assert found[2] == "plain"
    assert found[3] == "7.10"
    exact = {"parse_float": lambda t: ("number", t), "parse_int": lambda t: ("number", t)}
    assert json.loads(found[1], **exact) == json.loads(text, **exact)  # type: ignore[arg-type]


def test_numbers_in_texts_inside_rows(tmp_path: Path) -> None:
    """The same for a STRING field of a ROW and a STRING value of a MAP."""
    row = {"type": "ROW", "fields": [{"name": "s", "type": "STRING"}]}
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t",
        {
            "fields": [
                {"name": "id", "type": "INT"},
                {"name": "r", "type": row},
                {"name": "m", "type": {"type": "MAP", "key": "STRING NOT NULL", "value": "STRING"}},
            ],
            "primaryKeys": ["id"],
            "options": {"bucket": "1"},
        },
    )
    landing = tmp_path / "rows.jsonl"
    landing.write_text('{"id":1,"r":{"s":{"n":1.50}},"m":{"k":[1,"1"]}}\n')
    table.upsert_files([str(landing)])
    found = table.scan().to_arrow().to_pylist()[0]
    assert json.loads(found["r"]["s"], parse_float=str) == {"n": "1.50"}
    assert found["r"]["s"].replace(" ", "") == '{"n":1.50}'
    assert dict(found["m"])["k"].replace(" ", "") == '[1,"1"]'


# The reason of a rejected row named column and type, not the value; broken lines came before earlier rows.


def test_reasons(tmp_path: Path) -> None:
    """Values are quoted and cut; the order is that of the file; kinds of reasons are counted as before."""
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t",
        table_spec("id INT, n INT", ["id"], options={"bucket": "1"}),
    )
    landing = tmp_path / "rows.csv"
    landing.write_text(f"id,n,_kind\n1,abc,+I\n2,7\n3,{'9' * 100},+I\n4,5,+X\n5,5,+I\n")
    result = table.upsert_files([str(landing)])
    assert result.ingest.rejected_path is not None
    found = [(r["line"], r["reason"]) for r in pq.read_table(result.ingest.rejected_path).to_pylist()]
    assert found == [
        (2, "cast: column n is not INT: 'abc'"),
        (3, "format: 2 columns instead of 3"),
        (4, f"cast: column n is not INT: '{'9' * 80}…'"),
        (5, "kind: the row kind is not one of +I -U +U -D: '+X'"),
    ]
    assert result.ingest.reject_reasons == {"cast": 2, "format": 1, "kind": 1}


# Debezium messages with their schema part after the payload: behind a tombstone it was not read, and times had another unit.

_ROW = [{"type": "int32", "field": "id"}, {"type": "int64", "name": "io.debezium.time.Timestamp", "field": "at"}]
SCHEMA = {"type": "struct", "fields": [{"type": "struct", "fields": _ROW, "field": "after"}]}


def message(key: int, ms: int) -> dict[str, Any]:
    return {"payload": {"op": "c", "before": None, "after": {"id": key, "at": ms}}, "schema": SCHEMA}


@pytest.mark.parametrize(
    "before", ["null", '{"payload": null}', '{"payload": {"op": "m"}}', '{"op": "m", "source": {"schema": "public"}}']
)
def test_times_have_the_unit_that_the_schema_part_says(tmp_path: Path, before: str) -> None:
    table = lakeidx.Table.create(
        str(tmp_path / "wh/d.db/t"),
        table_spec("id INT, at TIMESTAMP(6)", ["id"], options={"bucket": "1"}),
    )
    messages = [json.dumps(message(key, 1_700_000_000_123 + key)) for key in range(3)]
    landing = tmp_path / "changes.json"
    landing.write_text("\n".join([messages[0], before, *messages[1:], ""]), encoding="utf-8")
    table.upsert_files([landing], LandingOptions(format="debezium"))
    assert [r["at"] for r in table.scan().to_arrow().sort_by("id").to_pylist()] == [
        datetime(2023, 11, 14, 22, 13, 20, 123_000 + 1000 * key) for key in range(3)
    ]


# A feed with the messages of two tables put the rows, and the deletes, of both into one table by their keys.

FORMATS = ("debezium", "maxwell", "canal", "ogg", "dms-json")


def message_messages(name: str, table: str | None, op: str, row: dict[str, Any]) -> dict[str, Any]:
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
    return lakeidx.Table.create(
        f"{folder}/d.db/t", table_spec("id INT NOT NULL, table STRING", ["id"], options={"bucket": "1"})
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
        message_messages(name, "customers", "c", {"id": 7, "table": "orders"}),
        message_messages(name, "orders", "d", {"id": 7, "table": "customers"}),
        message_messages(name, "orders", "c", {"id": "text", "price": [1], "table": {"table": "customers"}}),
        message_messages(name, "customers", "c", {"id": 8, "table": "customers"}),
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
    one, two = (
        write(tmp_path, [message_messages(name, t, "c", {"id": i, "table": t})]) for i, t in enumerate(("a", "b"))
    )
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
    unnamed = [
        message_messages(name, None, "c", {"id": 5, "table": "x"}),
        message_messages(name, "a", "c", {"id": 6, "table": "x"}),
    ]
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
    messages = [
        {**message_messages("maxwell", "a", "c", {"id": 1, "table": "x"}), "database": d} for d in ("one", "two")
    ]
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
    messages = [message_messages("debezium", t, "c", {"id": i, "table": "x"}) for i, t in enumerate(("a", "b"))]
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


# Rows with an operation, whose order is in a column of the same name as the table's sequence field.


def test_the_order_has_the_name_of_the_sequence_field(tmp_path: Path) -> None:
    options = {"bucket": "1", "sequence.field": "seq"}
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", table_spec("id INT, v INT, seq BIGINT", ["id"], options=options))
    file = tmp_path / "changes.csv"
    file.write_text("op,id,v,seq\nI,1,10,5\nU,1,20,4\nI,2,30,1\n")
    table.upsert_files([str(file)], LandingOptions(op_column="op", order=("seq",)))
    assert sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist()) == [(1, 10, 5), (2, 30, 1)]


# A landing file that is written again while a batch reads it: some rows were of before and some of after, and were committed.

__all__ = ["s3_server"]
LONG_AGO = 1_500_000_000


def written(path: Path, value: str, *, ints: pa.DataType | None = None) -> None:
    """The file, in the format of its ending, with a value in every row; of the same size for values of the same length."""
    rows = {"p": [1] * 40, "k": list(range(40)), "v": [value] * 40}
    table = pa.table(rows, schema=pa.schema([("p", pa.int32()), ("k", ints or pa.int64()), ("v", pa.string())]))
    if path.suffix == ".csv":
        path.write_text("p,k,v\n" + "".join(f"1,{k},{value}\n" for k in range(40)))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"p": 1, "k": k, "v": value}) + "\n" for k in range(40)))
    elif path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, str(path), compression="uncompressed")


def land(store: ObjectStore, table: Table, file: str, **options: Any) -> None:
    watched = Table(store, table.paths)
    upsert_files(make_context(watched.metadata, "b", runner=LocalRunner(2)), [file], LandingOptions(**options))


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow", "parquet"])
def test_the_batch_is_refused(kind: str, shares: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shares:
        monkeypatch.setattr(ingest, "SHARE_BYTES", 150)
    table, file = make_table(tmp_path), tmp_path / f"f.{kind}"
    # Parquet whose keys have another type is cast, not staged by reference.
    written(file, "old", ints=pa.int32())
    os.utime(file, (LONG_AGO, LONG_AGO))
    store = FaultStore(table.store)
    store.fail("open_input", f"f.{kind}", when="after", act=lambda *_: written(file, "new", ints=pa.int32()))
    with pytest.raises(InvalidInputError, match="the landing file changed while it was read; run the batch again"):
        land(store, table, str(file))
    assert table.metadata.snapshot_ids() == []
    # What the message says is true: nothing of the first run is left, and the id is free.
    land(table.store, table, str(file))
    assert set(content(table).values()) == {"new"}


def test_what_the_change_broke_is_not_called_damage(tmp_path: Path) -> None:
    table, file = make_table(tmp_path), tmp_path / "f.parquet"
    written(file, "old", ints=pa.int32())
    store = FaultStore(table.store)
    store.fail("open_input", "f.parquet", when="after", act=lambda *_: file.write_bytes(b"half a file"))
    with pytest.raises(InvalidInputError, match="changed while it was read"):
        land(store, table, str(file))


def test_rows_staged_by_reference_are_looked_at_after_each_reading(tmp_path: Path) -> None:
    table, file = make_table(tmp_path), tmp_path / "f.parquet"
    written(file, "old")
    os.utime(file, (LONG_AGO, LONG_AGO))
    opened = FaultStore(table.store)
    land(opened, make_table(tmp_path / "other"), str(file))
    for skip in range(opened.calls.count(("open_input", str(file)))):
        written(file, "old")
        # Another time for each run: the footer of a file that is the same is kept.
        os.utime(file, (LONG_AGO + 1 + skip,) * 2)
        fresh = make_table(tmp_path / f"t{skip}")
        store = FaultStore(fresh.store)
        store.fail("open_input", "f.parquet", when="after", act=lambda *_: written(file, "new"), skip=skip)
        with pytest.raises(InvalidInputError, match="the landing file changed"):
            land(store, fresh, str(file))
        assert fresh.metadata.snapshot_ids() == []


def test_keys_of_a_file_that_changes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, file = make_table(tmp_path), tmp_path / "f.csv"
    written(file, "old")

    def changing(*arguments: Any) -> Iterator[Any]:
        for piece in read(*arguments):
            written(file, "longer")
            yield piece

    read = read_landing
    monkeypatch.setattr("lakeidx.landing.key_rows.read_landing", changing)
    with pytest.raises(InvalidInputError, match="the file changed while it was read; run this again"):
        read_key_rows(str(file), table.schema.fields[:2])


@pytest.mark.s3
def test_an_object_put_again_within_the_second_of_its_time(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    table = Table.create(f"{s3_server.fresh_uri('wh')}/d.db/t", SPEC)
    written(old := tmp_path / "old.csv", "old")
    written(new := tmp_path / "new.csv", "new")
    path, plain = f"{table.uri}-landing/f.csv", open_store(table.uri)
    for _ in range(3):
        plain.put(path, old.read_bytes())
        store = FaultStore(plain)
        store.fail("open_input", "f.csv", when="after", act=lambda *_: plain.put(path, new.read_bytes()))
        with pytest.raises(InvalidInputError, match="the landing file changed while it was read"):
            land(store, table, path)
    assert table.metadata.snapshot_ids() == []
