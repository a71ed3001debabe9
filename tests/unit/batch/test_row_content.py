"""Content of rows that come in any order and any cut."""

from __future__ import annotations

import itertools

import pyarrow as pa

from lakeidx.batch.landed_files import content_of, join_contents
from lakeidx.format.schema.schema_file import new_schema
from tests.kit.small_tables import table_fields, table_spec

_ARRAY = {"name": "l", "type": {"type": "ARRAY", "element": "INT"}}
SCHEMA = new_schema(table_spec([*table_fields("k BIGINT, v STRING"), _ARRAY], ["k"], options={"bucket": "-1"}))


def rows(values: list[tuple[int, str | None]], kinds: list[int] | None = None) -> pa.Table:
    table = pa.table(
        {
            "k": pa.array([k for k, _ in values], pa.int64()),
            "v": pa.array([v for _, v in values], pa.string()),
            "l": pa.array([[1]] * len(values), pa.list_(pa.int32())),
        }
    )
    return table if kinds is None else table.append_column("_VALUE_KIND", pa.array(kinds, pa.int8()))


VALUES: list[tuple[int, str | None]] = [(1, "a"), (2, None), (2, "b"), (3, "a")]


def test_any_order_and_cut() -> None:
    whole = join_contents([content_of(rows(VALUES), SCHEMA)])
    for order in itertools.permutations(VALUES):
        for cut in range(5):
            parts = [rows(list(order[:cut])), rows(list(order[cut:]))]
            assert join_contents([content_of(p, SCHEMA) for p in parts]) == whole


def test_other_rows_have_another_content() -> None:
    others = [
        rows([(1, "a"), (2, None), (2, "b"), (3, "b")]),
        rows([(1, "a"), (2, "b"), (3, None), (3, "a")]),
        rows([(1, "b"), (2, None), (2, "a"), (3, "a")]),
        rows([(1, "a"), (1, "a"), (2, "b"), (3, "a")]),
        rows([*VALUES, (4, "a")]),
        rows(VALUES, [0, 0, 0, 0]),
        rows(VALUES, [0, 0, 0, 3]),
    ]
    found = {content_of(r, SCHEMA) for r in (rows(VALUES), *others)}
    assert len(found) == len(others) + 1
