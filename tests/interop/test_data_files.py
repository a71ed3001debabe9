"""Every type that lakeidx writes into a data file, read and rewritten by the released Java Paimon.

A one-bucket table is put together from single files: two level-0 data files that update and delete each other's keys. Java
reads the merged rows; then it compacts, and lakeidx reads the file that Java wrote.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.codec.values import arrow_to_internal, decimal_of, internal_to_arrow
from lakeidx.data.read_data_file import read_data_file
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from lakeidx.types import DataType, Root
from tests.interop.hand_made import STORE, commit, java_json, oracle

pytestmark = pytest.mark.interop

TYPES: dict[str, Any] = {
    "k": "BIGINT NOT NULL",
    "b": "BOOLEAN",
    "i8": "TINYINT",
    "i16": "SMALLINT",
    "i32": "INT",
    "i64": "BIGINT",
    "f32": "FLOAT",
    "f64": "DOUBLE",
    "d7": "DECIMAL(7, 2)",
    "d15": "DECIMAL(15, 4)",
    "d30": "DECIMAL(30, 3)",
    "c": "CHAR(6)",
    "v": "VARCHAR(20)",
    "s": "STRING",
    "bin": "BINARY(3)",
    "byt": "BYTES",
    "dt": "DATE",
    "tm": "TIME(3)",
    "t0": "TIMESTAMP(0)",
    "t3": "TIMESTAMP(3)",
    "t6": "TIMESTAMP(6)",
    "t9": "TIMESTAMP(9)",
    "l3": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "l6": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "l9": "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    "a": {"type": "ARRAY", "element": "INT"},
    "at": {"type": "ARRAY", "element": "TIMESTAMP(3)"},
    "aa": {"type": "ARRAY", "element": {"type": "ARRAY", "element": "STRING"}},
    "m": {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"},
    "mi": {"type": "MAP", "key": "INT NOT NULL", "value": {"type": "ARRAY", "element": "DOUBLE"}},
    "r": {
        "type": "ROW",
        "fields": [
            {"id": 0, "name": "x", "type": "INT"},
            {"id": 1, "name": "y", "type": "STRING"},
            {
                "id": 2,
                "name": "z",
                "type": {"type": "ROW", "fields": [{"id": 3, "name": "w", "type": "DECIMAL(4, 1)"}]},
            },
        ],
    },
    "ar": {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 0, "name": "q", "type": "TIMESTAMP(6)"}]}},
    "ms": {"type": "MULTISET", "element": "STRING"},
    "va": "VARIANT",
    "e": "INT NOT NULL",
}
# The oracle prints these as Java objects; they are compared in what Java writes when it compacts.
NOT_PRINTED = {"ms", "va"}


def sample(i: int, t: DataType) -> Any:
    """Some internal value of the type, null for every fifth i."""
    if t.nullable and i % 5 == 3:
        return None
    if t.root is Root.BOOLEAN:
        return i % 2 == 0
    if t.root in (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT):
        top = {Root.TINYINT: 2**7, Root.SMALLINT: 2**15, Root.INT: 2**31, Root.BIGINT: 2**63}[t.root]
        return (-top, top - 1, 0, i, -i)[i % 5] if i < 10 else (i * 2654435761) % (2 * top) - top
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return (0.0, -0.0, 0.5 * i, -1e10, 1.25e-5)[i % 5]
    if t.root is Root.DECIMAL:
        top = 10**t.precision - 1
        return decimal_of((top, -top, i % 1000, -i % 1000)[i % 4], t)
    if t.root in (Root.CHAR, Root.VARCHAR):
        return ("", "a", "ß日本😀", f"k{i}", "xyz")[i % 5]
    if t.root in (Root.BINARY, Root.VARBINARY):
        return bytes([i % 256, 0, 255])
    if t.root is Root.DATE:
        return i * 37 - 5000
    if t.root is Root.TIME:
        return i * 12_345 % 86_400_000
    if t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        step = {0: 1000, 3: 1, 6: 1, 9: 1}[t.precision]
        millis = (i * 86_400_123 - 10_000_000_007) // step * step
        nanos = {0: 0, 3: 0, 6: i % 1000 * 1000, 9: i * 1009 % 1_000_000}[t.precision]
        return millis, nanos
    if t.root is Root.ARRAY:
        assert t.element is not None
        return [sample(i + j, t.element) for j in range(i % 4)]
    if t.root is Root.MULTISET:
        return [(f"member{j}", i % 7 + 1) for j in range(i % 3)]
    if t.root is Root.VARIANT:
        # An 8-bit integer: header 0x0c, the number; metadata of version 1 without names.
        return bytes([0x0C, i % 128]), bytes([1, 0, 0])
    if t.root is Root.MAP:
        assert t.key is not None
        assert t.element is not None
        keys = [j * 10 + i if t.key.root is Root.INT else f"key{j}" for j in range(i % 3)]
        return [(k, sample(i + j, t.element)) for j, k in enumerate(keys)]
    return tuple(sample(i + j, f.type) for j, f in enumerate(t.fields))


def kv_table(schema: TableSchema, keys: list[int], seed: int, first_sequence: int, kinds: list[int]) -> pa.Table:
    columns = {"_SEQUENCE_NUMBER": pa.array(range(first_sequence, first_sequence + len(keys)), pa.int64())}
    columns["_VALUE_KIND"] = pa.array(kinds, pa.int8())
    for at, f in enumerate(schema.fields):
        values = keys if f.name == "k" else [sample(k + seed + at, f.type) for k in keys]
        columns[f.name] = internal_to_arrow(values, f.type)
    return pa.table(columns, schema=schema.kv_arrow_schema)


def rows_of(table: pa.Table, schema: TableSchema) -> dict[int, dict[str, Any]]:
    columns = {f.name: arrow_to_internal(table.column(f.name), f.type) for f in schema.fields}
    return {k: {n: columns[n][i] for n in columns} for i, k in enumerate(columns["k"])}


@pytest.mark.parametrize(
    "options",
    [{}, {"data-file.thin-mode": "true", "file.block-size": "8 kb"}, {"parquet.writer.version": "PARQUET_1_0"}],
    ids=["default", "thin-many-groups", "parquet-1"],
)
def test_java_reads_and_compacts_every_type(tmp_path: Path, options: dict[str, str]) -> None:
    spec = {
        "fields": [{"name": n, "type": t} for n, t in TYPES.items()],
        "primaryKeys": ["k"],
        "partitionKeys": [],
        "options": {"bucket": "1", **options},
    }
    schema = new_schema(spec)
    paths = TablePaths.of(str(tmp_path / "db.db" / "t"), schema)
    old = kv_table(schema, list(range(-20, 2200)), 3, 0, [0] * 2220)
    new_keys = list(range(-30, 300, 7))
    new = kv_table(schema, new_keys, 11, 5000, [3 if k % 3 == 0 else 0 for k in new_keys])
    names = NewFileNames()
    bucket_dir = paths.bucket_dir({}, 0)
    files = [
        f
        for t in (old, new)
        for f in DataFileWriter(schema, store=STORE, bucket_dir=bucket_dir, names=names).write_all([t])
    ]
    commit(paths, schema, files)
    expected = rows_of(old, schema)
    kinds = new.column("_VALUE_KIND").to_pylist()
    for (key, row), kind in zip(rows_of(new, schema).items(), kinds, strict=True):
        expected.pop(key, None)
        if kind == 0:
            expected[key] = row
    types = {f.name: f.type for f in schema.fields}
    printed = {n: t for n, t in types.items() if n not in NOT_PRINTED}
    wanted = {k: {n: java_json(row[n], t) for n, t in printed.items()} for k, row in expected.items()}
    got = {row["k"]: {n: row[n] for n in printed} for row in oracle("read", tmp_path)}
    assert got == wanted

    before = {p.name for p in Path(bucket_dir).iterdir()}
    oracle("compact", tmp_path)
    (compacted,) = [p for p in Path(bucket_dir).iterdir() if p.name not in before and not p.name.startswith(".")]
    (table,) = [pa.concat_tables(read_data_file(STORE, str(compacted), None, schema, schema))]
    assert rows_of(table, schema) == expected
