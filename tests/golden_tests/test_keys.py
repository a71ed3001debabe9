"""Keys as the released Java writes and hashes them (keys.jsonl): BinaryRow, compacted row, hashes, fixed buckets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lakeidx.codec.bucket import FUNCTIONS, buckets_of_hashes, fixed_buckets
from lakeidx.codec.hashes.murmur import hash_bytes, hash_words
from lakeidx.codec.rows.binary_row import split_arity, with_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.codec.rows.compacted_row import encode_compacted, encode_compacted_rows
from lakeidx.codec.rows.compacted_row_read import decode_compacted, decode_compacted_rows
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.values import arrow_to_internal, internal_to_arrow
from lakeidx.errors import InvalidInputError
from lakeidx.types import TIMESTAMP_ROOTS, DataType, parse_type
from tests.conftest import GOLDEN
from tests.kit.json_forms import internal_to_json, json_to_internal
from tests.kit.scalar_twins import compare_compacted
from tests.unit.codec.strategies import same

pytestmark = pytest.mark.golden

# split("\n"): text values may hold other line separators.
LINES = [json.loads(line) for line in (GOLDEN / "keys.jsonl").read_text(encoding="utf-8").split("\n") if line]
ROWS = [line for line in LINES if line["kind"] != "bytes"]
BYTES = [line for line in LINES if line["kind"] == "bytes"]


def read(line: dict[str, Any]) -> tuple[list[DataType], list[Any]]:
    types = [parse_type(t) for t in line["types"]]
    return types, [json_to_internal(v, t) for v, t in zip(line["values"], types, strict=True)]


def beyond_arrow(types: list[DataType], values: list[Any]) -> bool:
    """A TIMESTAMP p > 6 outside the years 1677 to 2262, which Arrow's 64-bit nanoseconds cannot hold."""
    return any(
        v is not None and t.root in TIMESTAMP_ROOTS and t.precision > 6 and abs(v[0]) > 9_223_372_036_854
        for v, t in zip(values, types, strict=True)
    )


def test_the_file_has_every_kind() -> None:
    assert {line["kind"] for line in LINES} == {"scalar", "mixed", "nested", "bytes"}


def check_scalar(line: dict[str, Any]) -> None:
    types, values = read(line)
    row, compacted = bytes.fromhex(line["row"]), bytes.fromhex(line["compacted"])
    assert encode_row(values, types) == row
    assert same(decode_row(row, types), values)
    assert split_arity(with_arity(row, len(types))) == (len(types), row)
    assert hash_words(row) == line["hash"]
    assert encode_compacted(values, types) == compacted
    assert same(decode_compacted(compacted, types), values)
    assert hash_bytes(compacted) == line["compacted_hash"]
    back = [internal_to_json(v, t) for v, t in zip(values, types, strict=True)]
    assert same([json_to_internal(v, t) for v, t in zip(back, types, strict=True)], values)
    if line["kind"] != "nested":
        assert compare_compacted(compacted, compacted, types) == 0


def check_vectorised(line: dict[str, Any]) -> None:
    types, values = read(line)
    if beyond_arrow(types, values):
        with pytest.raises(InvalidInputError, match="does not fit"):
            [internal_to_arrow([v], t) for v, t in zip(values, types, strict=True)]
        return
    # Between other rows, so that nothing works only for row 0 or for columns without nulls.
    columns = [internal_to_arrow([None, v, v, None], t) for v, t in zip(values, types, strict=True)]
    row, compacted = bytes.fromhex(line["row"]), bytes.fromhex(line["compacted"])
    rows = encode_rows(columns, types, 4)
    assert rows[1] == rows[2] == row
    assert hash_columns(columns, types, 4)[1:3].tolist() == [line["hash"]] * 2
    assert [hash_bytes(row) for row in rows][1:3] == [line["hash"]] * 2
    packed = encode_compacted_rows(columns, types, 4)
    assert packed[1] == packed[2] == compacted
    assert [hash_bytes(row) for row in packed][1:3] == [line["compacted_hash"]] * 2
    table = decode_compacted_rows(RowBytes.from_list([compacted] * 2), types, [f"c{i}" for i in range(len(types))])
    assert table.num_columns == len(types)
    for i, (value, t) in enumerate(zip(values, types, strict=True)):
        assert same(arrow_to_internal(table.column(i), t), [value] * 2)


def check_buckets(line: dict[str, Any]) -> None:
    types, values = read(line)
    if beyond_arrow(types, values):
        # The columns cannot be built; the rule itself still can be checked on Java's hash.
        hashes = np.array([line["hash"]], np.int32)
        for n, bucket in line["buckets"]["default"].items():
            assert buckets_of_hashes(hashes, int(n)).tolist() == [bucket]
        return
    columns = [internal_to_arrow([v], t) for v, t in zip(values, types, strict=True)]
    assert set(line["buckets"]) == set(FUNCTIONS)
    for function, wanted in line["buckets"].items():
        if wanted is None:
            with pytest.raises(InvalidInputError):
                fixed_buckets(columns, types, 7, function, num_rows=1)
        for n, bucket in (wanted or {}).items():
            assert fixed_buckets(columns, types, int(n), function, num_rows=1).tolist() == [bucket]


@pytest.mark.parametrize("kind", sorted({line["kind"] for line in ROWS}))
@pytest.mark.parametrize("check", [check_scalar, check_vectorised, check_buckets])
def test_rows(kind: str, check: Callable[[dict[str, Any]], None]) -> None:
    for line in ROWS:
        if line["kind"] == kind:
            try:
                check(line)
            except Exception as e:
                e.add_note(f"keys.jsonl, id {line['id']}, types {line['types']}")
                raise


def test_byte_strings() -> None:
    data = [bytes.fromhex(line["hex"]) for line in BYTES]
    assert data
    for line, raw in zip(BYTES, data, strict=True):
        assert hash_bytes(raw) == line["hash"] == line["string_hash"]
        assert hash_bytes(raw) & 0x7FFFFFFF == line["hash_positive"]


def test_all_rows_of_one_shape_at_once() -> None:
    """Columns of many different golden values: rows must not influence each other."""
    shapes: dict[str, list[dict[str, Any]]] = {}
    for line in LINES:
        if line["kind"] != "bytes" and not beyond_arrow(*read(line)):
            shapes.setdefault(json.dumps(line["types"]), []).append(line)
    for text, lines in shapes.items():
        types = [parse_type(t) for t in json.loads(text)]
        rows = [read(line)[1] for line in lines]
        columns = [internal_to_arrow([r[i] for r in rows], t) for i, t in enumerate(types)]
        assert [r.hex() for r in encode_rows(columns, types, len(rows))] == [line["row"] for line in lines]
        assert hash_columns(columns, types, len(rows)).tolist() == [line["hash"] for line in lines]
        packed = encode_compacted_rows(columns, types, len(rows))
        assert [r.hex() for r in packed] == [line["compacted"] for line in lines]
