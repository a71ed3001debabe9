"""Every golden table: the rows of each snapshot, tag and newest state are those that Java read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.codec.values import arrow_to_internal
from lakeidx.table.scan.table_scan import TableScan
from lakeidx.table.view import decode_partition_dict
from lakeidx.types import DataType, Root
from tests.conftest import GOLDEN

pytestmark = pytest.mark.golden


def _states() -> list[tuple[str, str, dict[str, Any]]]:
    out: list[tuple[str, str, dict[str, Any]]] = []
    for case in sorted(GOLDEN.glob("tables/*/case.json")):
        described = json.loads(case.read_text())
        name = case.parent.name
        out += [(name, s["expect"], {"snapshot": s["id"]}) for s in described["snapshots"] if s.get("expect")]
        out += [(name, f.name, {}) for f in case.parent.glob("expect-latest.jsonl")]
        for tag in case.parent.glob("expect-tag-*.jsonl"):
            out.append((name, tag.name, {"tag": tag.name[len("expect-tag-") : -len(".jsonl")]}))
    return out


def _json(value: Any, t: DataType) -> Any:
    """An internal value as the golden files write it, in a form that compares (NaN, unordered maps)."""
    if value is None:
        return None
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return repr(float(value))
    if t.root is Root.DECIMAL:
        return f"{value:f}"
    if t.root in (Root.BINARY, Root.VARBINARY):
        return value.hex()
    if t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return list(value)
    if t.root is Root.ARRAY:
        assert t.element is not None
        return [_json(v, t.element) for v in value]
    if t.root in (Root.MAP, Root.MULTISET):
        key = t.key if t.root is Root.MAP else t.element
        item = t.element if t.root is Root.MAP else DataType(Root.INT)
        assert key is not None
        assert item is not None
        return sorted(([_json(k, key), _json(v, item)] for k, v in value), key=str)
    if t.root is Root.ROW:
        return [_json(v, f.type) for v, f in zip(value, t.fields, strict=True)]
    return value


_FLOATS = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


def _expected(value: Any, t: DataType) -> Any:
    if value is None:
        return None
    if t.root in (Root.FLOAT, Root.DOUBLE):
        if isinstance(value, str):
            return _FLOATS[value]
        return repr(float(value)) if t.root is Root.DOUBLE else repr(_float32(value))
    if t.root is Root.ARRAY:
        assert t.element is not None
        return [_expected(v, t.element) for v in value]
    if t.root in (Root.MAP, Root.MULTISET):
        key = t.key if t.root is Root.MAP else t.element
        item = t.element if t.root is Root.MAP else DataType(Root.INT)
        assert key is not None
        assert item is not None
        return sorted(([_expected(k, key), _expected(v, item)] for k, v in value), key=str)
    if t.root is Root.ROW:
        return [_expected(v, f.type) for v, f in zip(value, t.fields, strict=True)]
    return value


def _float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def read_rows(scan: TableScan) -> list[str]:
    """Rows of a scan with partition and bucket, as sorted text."""
    schema = scan.plan.schema
    out = []
    for bucket in scan.plan.buckets:
        partition = decode_partition_dict(bucket.partition, schema)
        place = [_json(partition[k], schema.field(k).type) for k in schema.partition_keys]
        for table in scan.read_bucket(bucket):
            columns = [
                [_json(v, f.type) for v in arrow_to_internal(table.column(f.name), f.type)] for f in schema.fields
            ]
            rows = zip(*columns, strict=True)
            out += [json.dumps([list(row), place, bucket.bucket]) for row in rows]
    return sorted(out)


def expected_rows(file: Path, scan: TableScan) -> list[str]:
    """Rows of an expect file, as sorted text."""
    schema = scan.plan.schema
    out = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line:
            continue
        value = json.loads(line)
        row = [_expected(value["row"][f.name], f.type) for f in schema.fields]
        assert len(row) == len(value["row"])
        types = [schema.field(k).type for k in schema.partition_keys]
        partition = value["partition"]
        values = list(partition.values()) if isinstance(partition, dict) else partition
        place = [_expected(v, t) for v, t in zip(values, types, strict=True)]
        out.append(json.dumps([row, place, value["bucket"]]))
    return sorted(out)


@pytest.mark.parametrize(("case", "expect", "state"), _states(), ids=lambda v: v if isinstance(v, str) else "")
def test_rows_are_java_s(case: str, expect: str, state: dict[str, Any]) -> None:
    folder = GOLDEN / "tables" / case
    table = Table.open(str(folder / "table"))
    scan = table.scan(**state)
    assert read_rows(scan) == expected_rows(folder / expect, scan)
