"""Arrow types and the types of tables made of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.types import from_arrow, parse_type, to_arrow

HELD = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.uint8(), "INT": pa.uint16(), "BIGINT": pa.uint32(),
    "DECIMAL(20, 0)": pa.uint64(), "FLOAT": pa.float16(), "DOUBLE": pa.float64(), "DATE": pa.date64(), "TIME(3)": pa.time64("us"),
    "STRING": pa.dictionary(pa.int32(), pa.large_string()), "BYTES": pa.binary(4), "DECIMAL(10, 2)": pa.decimal256(10, 2),
    "TIMESTAMP(9)": pa.timestamp("ns"), "TIMESTAMP(0) WITH LOCAL TIME ZONE": pa.timestamp("s", "Europe/Berlin"),
    "ARRAY<INT>": pa.large_list(pa.int32()), "MAP<STRING NOT NULL, DOUBLE>": pa.map_(pa.string(), pa.float64()),
    "ROW<a BIGINT, b ARRAY<STRING>>": pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string_view()))]),
}  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs"), HELD.items(), ids=str)
def test_a_column_of_an_arrow_type_has_a_type_that_holds_its_values(ours: str, theirs: pa.DataType) -> None:
    assert str(from_arrow(theirs)) == ours


@pytest.mark.parametrize("text", [t for t in HELD if "<" not in t])
def test_what_a_table_gives_makes_a_column_of_the_same_arrow_type(text: str) -> None:
    there = to_arrow(parse_type(text))
    assert to_arrow(from_arrow(there)) == there


@pytest.mark.parametrize("theirs", [pa.duration("s"), pa.decimal256(60, 2), pa.list_(pa.month_day_nano_interval())])
def test_values_no_table_holds_are_refused(theirs: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match="column c: a table cannot hold values of"):
        from_arrow(theirs, where="column c")
