"""File index containers written by the released Java: decoded, asked what Java was asked, and written again."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.codec.cursor import Cursor
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.values import internal_to_arrow
from lakeidx.errors import InvalidInputError
from lakeidx.file_index.container import FileIndexContainer, decode_index_container, encode_index_container
from lakeidx.file_index.evaluate import evaluate_container
from lakeidx.file_index.kinds.bitmap import encode_bitmap
from lakeidx.file_index.kinds.types import FileIndexReader, FileIndexResult, Verdict, intersect
from lakeidx.file_index.kinds.value_keys import KeyCollector, read_key
from lakeidx.file_index.options import indexed_columns, split_reference, validate_file_index_options
from lakeidx.file_index.registry import file_index_of
from lakeidx.file_index.write import index_builder
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.options.descriptors import parse_size
from lakeidx.predicate import Predicate, and_, between, evaluate, leaves, or_
from lakeidx.predicate.mask import is_impossible
from lakeidx.predicate.tree import And, Compare, In, IsNull, Leaf, Match, MatchKind, Op
from lakeidx.types import DataType, Field, Root, format_type, parse_type, to_arrow_schema
from tests.conftest import GOLDEN
from tests.kit.json_forms import json_to_internal

pytestmark = pytest.mark.golden

FOLDER = GOLDEN / "file-index"
COMPARISONS = {"eq": Op.EQ, "ne": Op.NE, "lt": Op.LT, "le": Op.LE, "gt": Op.GT, "ge": Op.GE}
Answer = str | list[int]


def lines(name: str) -> list[dict[str, Any]]:
    path = FOLDER / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


SINGLE, MULTI = lines("single.jsonl"), lines("multi.jsonl")
WRITTEN = [case for case in SINGLE if "write_error" not in case]


def named(cases: list[dict[str, Any]]) -> dict[str, Any]:
    return {"argnames": "case", "argvalues": cases, "ids": [f"{c['name']}-{c.get('index', '')}" for c in cases]}


def to_predicate(column: str, op: str, literals: list[Any], t: DataType) -> Predicate:
    """A golden query as a predicate with internal values."""
    values = [json_to_internal(v, t) for v in literals]
    key = split_reference(column)[1]
    if op in COMPARISONS:
        return Compare(column, COMPARISONS[op], values[0], key)
    if op in ("in", "not_in"):
        return In(column, tuple(values), negated=op == "not_in", map_key=key)
    if op in ("is_null", "is_not_null"):
        return IsNull(column, negated=op == "is_not_null", map_key=key)
    if op == "between":
        return between(column, *values, map_key=key)
    assert op == "starts_with", op
    return Match(column, MatchKind.PREFIX, values[0], map_key=key)


def ask(reader: FileIndexReader, pred: Predicate) -> FileIndexResult:
    """A reader's answer; BETWEEN is two questions here and one in Java."""
    result: FileIndexResult = Verdict.REMAIN
    for leaf in pred.children if isinstance(pred, And) else (pred,):
        assert isinstance(leaf, Leaf)
        result = intersect(result, reader.select(leaf))
    return result


def answer(result: FileIndexResult) -> Answer:
    return result.name if isinstance(result, Verdict) else list(result)


def same(ours: Answer, java: Answer) -> bool:
    """An empty bitmap and SKIP say the same."""
    return ours == java or (ours in ([], "SKIP") and java in ([], "SKIP"))


def column_of(case: dict[str, Any]) -> tuple[DataType, pa.Array]:
    t = parse_type(case["type"])
    return t, internal_to_arrow([json_to_internal(v, t) for v in case["values"]], t)


def options_of(case: dict[str, Any]) -> dict[str, str]:
    (indexed,) = indexed_columns(case["options"])
    return dict(indexed.options)


def java_payload(case: dict[str, Any]) -> bytes:
    payload = decode_index_container((FOLDER / case["file"]).read_bytes())["c"][case["index"]]
    assert payload is not None
    return payload


def written(case: dict[str, Any]) -> bytes | None:
    """The column written by lakeidx, in two batches, the second dictionary-encoded when it holds strings."""
    t, column = column_of(case)
    writer = file_index_of(case["index"]).create_writer(t, options_of(case))
    half = len(column) // 3
    writer.add(column.slice(0, half))
    rest = column.slice(half)
    writer.add(rest.dictionary_encode() if t.root is Root.VARCHAR else rest)
    return writer.finish()


def java_order(case: dict[str, Any], payload: bytes) -> np.ndarray:
    """Ranks of a bitmap index's values in the order Java's hash map gave its bitmaps (version 1: and entries)."""
    t, column = column_of(case)
    collector = KeyCollector(t)
    collector.add(column)
    keys = collector.distinct().keys
    ranks = {k: i for i, k in enumerate(keys.to_list() if isinstance(keys, RowBytes) else keys.tolist())}
    cursor = Cursor(payload)
    version, _, count, nulls = cursor.u8(), cursor.i32be(), cursor.i32be(), cursor.u8()
    cursor.skip(4 * version if nulls else 0)
    if version == 1:
        listed = [(read_key(cursor, t), cursor.i32be())[0] for _ in range(count)]
        return np.array([ranks[k] for k in listed], np.int64)
    blocks = cursor.i32be()
    for _ in range(blocks):
        read_key(cursor, t)
        cursor.i32be()
    cursor.i32be()
    entries = []
    for _ in range(blocks):
        for _ in range(cursor.i32be()):
            key, offset, _ = read_key(cursor, t), cursor.i32be(), cursor.i32be()
            entries.append((offset, ranks[key]))
    several = [rank for offset, rank in sorted(entries) if offset >= 0]
    return np.array([rank for offset, rank in entries if offset < 0] + several, np.int64)


@pytest.mark.parametrize(**named(WRITTEN))
def test_answers_of_one_index(case: dict[str, Any]) -> None:
    t, column = column_of(case)
    payloads = {"java": java_payload(case), "lakeidx": written(case)}
    for writer, payload in payloads.items():
        assert payload is not None
        rows = None if case["index"] == "bloom-filter" else len(column)
        reader = file_index_of(case["index"]).create_reader(t, payload, rows=rows)
        for query in case["queries"]:
            pred = to_predicate("c", query["op"], query["literals"], t)
            got = answer(ask(reader, pred))
            if "known_bug_of_1_4_2" in query:
                assert got == list(range(len(column))), (writer, query)
            elif str(query["result"]).startswith("ERROR"):
                assert None in query["literals"]
                assert got == [], (writer, query)  # nothing equals, or is less than, NULL
            else:
                assert same(got, query["result"]), (writer, query, got)


@pytest.mark.parametrize(**named(WRITTEN))
def test_evaluation_of_one_container(case: dict[str, Any]) -> None:
    t, column = column_of(case)
    fields = [Field(0, "c", t)]
    table = pa.table({"c": column})
    payload = written(case)
    ours = encode_index_container({"c": {case["index"]: payload}})
    for data in ((FOLDER / case["file"]).read_bytes(), ours):
        for query in case["queries"]:
            pred = to_predicate("c", query["op"], query["literals"], t)
            got = answer(evaluate_container(data, pred, fields))
            selected = np.flatnonzero(evaluate(pred, table).to_numpy()).tolist()
            if got != "REMAIN":
                assert set(selected) <= set([] if got == "SKIP" else got), query
            java = query.get("predicate_result", query["result"])
            zeros = t.root in (Root.FLOAT, Root.DOUBLE) and any(v == 0 for v in query["literals"])
            exact = not (zeros or str(java).startswith("ERROR") or "known_bug_of_1_4_2" in query)
            if any(is_impossible(leaf) for leaf in leaves(pred)):
                assert got == "SKIP", query
            elif exact:
                assert same(got, java), query


@pytest.mark.parametrize(**named(WRITTEN))
def test_rewriting_gives_the_same_bytes(case: dict[str, Any]) -> None:
    java, ours = java_payload(case), written(case)
    assert ours is not None
    if case["index"] != "bitmap":
        assert ours == java
        return
    # The bitmaps of a bitmap index stand in the order of a Java hash map; in that order ours are the same.
    t, column = column_of(case)
    collector = KeyCollector(t)
    collector.add(column)
    options = options_of(case)
    in_java_order = encode_bitmap(
        collector.distinct(),
        t,
        version=int(options.get("version", "2")),
        block_size=parse_size(options.get("index-block-size", "16 kb")),
        order=java_order(case, java),
    )
    assert in_java_order == java
    assert len(ours) == len(java)


@pytest.mark.parametrize(**named(WRITTEN))
def test_container_bytes(case: dict[str, Any]) -> None:
    data = (FOLDER / case["file"]).read_bytes()
    assert len(data) == case["size"]
    assert encode_index_container(decode_index_container(data), checksums=False) == data


@pytest.mark.parametrize(**named([case for case in SINGLE if "write_error" in case]))
def test_what_java_cannot_write_is_left_out(case: dict[str, Any]) -> None:
    assert written(case) is None


# Several columns in one container.


def multi_fields(case: dict[str, Any]) -> list[Field]:
    return [Field(i, c, parse_type(t)) for i, (c, t) in enumerate(zip(case["columns"], case["types"], strict=True))]


def multi_table(case: dict[str, Any]) -> pa.Table:
    columns = []
    for i, f in enumerate(multi_fields(case)):
        columns.append(internal_to_arrow([json_to_internal(row[i], f.type) for row in case["rows"]], f.type))
    return pa.table(columns, names=case["columns"])


def multi_schema(case: dict[str, Any]) -> TableSchema:
    spec = {
        "fields": [{"name": f.name, "type": format_type(f.type)} for f in multi_fields(case)],
        "options": case["options"],
    }
    return new_schema(spec)


def reference_type(case: dict[str, Any], reference: str) -> DataType:
    source, key = split_reference(reference)
    t = next(f.type for f in multi_fields(case) if f.name == source)
    assert key is None or t.element is not None
    return t if key is None or t.element is None else t.element


def multi_written(case: dict[str, Any]) -> bytes:
    schema = multi_schema(case)
    validate_file_index_options(schema)
    builder = index_builder(schema)
    assert builder is not None
    writer = builder()
    table = multi_table(case)
    writer.add(table.slice(0, 5))
    writer.add(table.slice(5))
    embedded, side_files = writer.finish()
    assert embedded is not None  # the cases put the threshold at 1 gb
    assert side_files == []
    return embedded


@pytest.mark.parametrize(**named(MULTI))
def test_directory_of_several_columns(case: dict[str, Any]) -> None:
    data = (FOLDER / case["file"]).read_bytes()
    decoded = decode_index_container(data)
    sizes = {c: {i: None if p is None else len(p) for i, p in by_type.items()} for c, by_type in decoded.items()}
    assert sizes == case["contents"]
    assert encode_index_container(decoded, checksums=False) == data
    ours = decode_index_container(multi_written(case))
    assert {c: {i: None if p is None else len(p) for i, p in by.items()} for c, by in ours.items()} == sizes
    for column, by_type in decoded.items():
        for index, payload in by_type.items():
            if index != "bitmap":  # hash map order
                assert ours[column][index] == payload


@pytest.mark.parametrize(**named(MULTI))
def test_answers_of_several_columns(case: dict[str, Any]) -> None:
    java, ours = (FOLDER / case["file"]).read_bytes(), multi_written(case)
    for data in (java, ours):
        container = FileIndexContainer.from_bytes(data)
        for column, queries in case["queries"].items():
            t = reference_type(case, column)
            for query in queries:
                pred = to_predicate(column, query["op"], query["literals"], t)
                check_readers(container, column, t, pred, query)
                check_evaluation(data, case, pred, query)


def check_readers(
    container: FileIndexContainer, column: str, t: DataType, pred: Predicate, query: dict[str, Any]
) -> None:
    wanted = query.get("results_any_order", [query.get("result")])
    if any(str(w).startswith("ERROR") for w in wanted) or "known_bug_of_1_4_2" in query:
        return
    got = []
    for entry in container.indexes_of(column):
        if not entry.is_empty:
            got.append(answer(ask(file_index_of(entry.type).create_reader(t, container.payload(entry)), pred)))
    if len(got) == len(wanted):
        assert sorted(str(g).replace("SKIP", "[]") for g in got) == sorted(str(w).replace("SKIP", "[]") for w in wanted)


def check_evaluation(data: bytes, case: dict[str, Any], pred: Predicate, query: dict[str, Any]) -> None:
    got = answer(evaluate_container(data, pred, multi_fields(case)))
    selected = np.flatnonzero(evaluate(pred, multi_table(case)).to_numpy()).tolist()
    assert got == "REMAIN" or set(selected) <= set([] if got == "SKIP" else got), query
    java = query.get("predicate_result", query.get("result"))
    if isinstance(pred, Leaf) and is_impossible(pred):
        assert got == "SKIP"
    elif java is not None and not str(java).startswith("ERROR") and "known_bug_of_1_4_2" not in query:
        assert same(got, java), query


@pytest.mark.parametrize(**named(MULTI))
def test_compound_predicates(case: dict[str, Any]) -> None:
    for data in ((FOLDER / case["file"]).read_bytes(), multi_written(case)):
        for query in case["compound"]:
            parts = [
                to_predicate(q["column"], q["op"], q["literals"], reference_type(case, q["column"]))
                for q in query["of"]
            ]
            pred = and_(parts) if query["combine"] == "and" else or_(parts)
            if any(is_impossible(leaf) for leaf in leaves(pred)):
                check_evaluation(data, case, pred, {"op": "null literal"})
            else:
                check_evaluation(data, case, pred, query)


# What each index accepts.


def supported() -> Iterator[tuple[str, str, bool]]:
    path = FOLDER / "supported.json"
    by_index = json.loads(path.read_text("utf-8")) if path.exists() else {}
    every = sorted({t for types in by_index.values() for t in types})
    for index, types in by_index.items():
        for t in every:
            yield index, t, t in types


@pytest.mark.parametrize(("index", "type_text", "accepted"), list(supported()))
def test_supported_types(index: str, type_text: str, accepted: bool) -> None:
    indexer, t = file_index_of(index), parse_type(type_text)
    if accepted:
        indexer.check(t, {})
        assert indexer.create_writer(t, {}).finish() is not None
    else:
        with pytest.raises(InvalidInputError, match="cannot index"):
            indexer.check(t, {})


@pytest.mark.parametrize("index", sorted(FOLDER.glob("*.index")), ids=lambda p: p.stem)
def test_every_file_is_tested(index: Path) -> None:
    assert index.name in {c.get("file") for c in (*SINGLE, *MULTI)}


# Data files of whole tables with their indexes.


def table_filters() -> Iterator[tuple[str, int]]:
    for path in sorted((GOLDEN / "tables").glob("*/filters.jsonl")):
        yield from ((path.parent.name, number) for number, _ in enumerate(path.read_text("utf-8").splitlines()))


@functools.cache
def indexed_files(name: str) -> tuple[list[Field], list[tuple[pa.Table, bytes]]]:
    """Columns of a golden table, and the rows and container of each live data file."""
    folder = GOLDEN / "tables" / name
    case = json.loads((folder / "case.json").read_text("utf-8"))
    fields = [Field(f["id"], f["name"], parse_type(f["type"])) for f in case["fields"]]
    last = max(s["id"] for s in case["snapshots"])
    files = []
    for line in (folder / f"files-{last}.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        if "embedded_index" not in entry:
            continue
        bucket = folder / "table" / f"bucket-{entry['bucket']}"
        side = [bucket / f for f in entry["extra_files"] if f.endswith(".index")]
        container = bytes.fromhex(entry["embedded_index"]) if entry["embedded_index"] else None
        container = side[0].read_bytes() if side else container
        if container is not None:
            rows = pq.ParquetFile(bucket / entry["file"]).read(columns=[f.name for f in fields])
            files.append((rows.cast(to_arrow_schema(fields)), container))
    return fields, files


@pytest.mark.parametrize(("name", "number"), list(table_filters()))
def test_filters_of_tables(name: str, number: int) -> None:
    """What an index lets through holds every selected row, and no other rows than Java reads before its exact filter."""
    fields, files = indexed_files(name)
    lines = (GOLDEN / "tables" / name / "filters.jsonl").read_text("utf-8").splitlines()
    query = json.loads(lines[number])
    t = next(f.type for f in fields if f.name == query["column"])
    pred = to_predicate(query["column"], query["op"], query["literals"], t)
    assert files
    through = least = 0
    for table, container in files:
        selected = set(np.flatnonzero(evaluate(pred, table).to_numpy()).tolist())
        got = evaluate_container(container, pred, fields, rows=table.num_rows)
        allowed = set(range(table.num_rows)) if got is Verdict.REMAIN else set() if got is Verdict.SKIP else set(got)
        assert selected <= allowed
        through += len(allowed)
        least += len(allowed) if selected else 0
    if name == "file-index-append":  # elsewhere statistics, merging and deletion vectors take part
        # Java may drop a file without a selected row by its Parquet statistics, too.
        assert least <= query["rows_without_exact_filter"] <= through
