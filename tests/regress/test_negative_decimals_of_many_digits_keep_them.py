"""A negative decimal literal of more than 28 digits was rounded by the negation; a partition path of such a value raised."""

from __future__ import annotations

from decimal import Context, Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import lakeidx

_EXACT = Context(prec=60)


def _table(folder: Path, data_type: str, **more: object) -> lakeidx.Table:
    fields = [{"name": "id", "type": "INT"}, {"name": "d", "type": data_type}]
    return lakeidx.Table.create(
        f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}, **more}
    )


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        ("DECIMAL(38, 38)", "-0.99999999999999999999999999999999999999"),
        ("DECIMAL(38, 10)", "-1234567890123456789012345678.1234567891"),
        ("DECIMAL(38, 0)", "-99999999999999999999999999999999999999"),
    ],
)
def test_where_compares_all_digits(tmp_path: Path, data_type: str, text: str) -> None:
    """The literal, quoted or not, equals the value and is not below it."""
    table = _table(tmp_path, data_type)
    precision, scale = (int(n) for n in data_type[8:-1].split(","))
    table.upsert(pa.table({"id": [1], "d": pa.array([Decimal(text)], pa.decimal128(precision, scale))}))
    for literal in (text, f"'{text}'"):
        assert table.scan(where=f"d = {literal}").to_arrow().column("id").to_pylist() == [1]
        assert table.scan(where=f"d < {literal}").to_arrow().num_rows == 0


def test_negative_zero_stays_zero(tmp_path: Path) -> None:
    """``-0.0`` is the decimal zero, as in SQL, not the float below it."""
    table = _table(tmp_path, "DOUBLE")
    table.upsert(pa.table({"id": [1], "d": [0.0]}))
    assert table.scan(where="d = -0.0").to_arrow().num_rows == 1


@pytest.mark.parametrize("legacy", ["true", "false"])
@pytest.mark.parametrize(
    ("scale", "unscaled"), [(0, 10**37 + 1), (10, -(10**38 - 1)), (38, 12345678901234567890123456789012345678)]
)
def test_partitions_of_long_decimals(tmp_path: Path, legacy: str, scale: int, unscaled: int) -> None:
    """The directory has every digit, and the rows come back."""
    value = Decimal(unscaled).scaleb(-scale, _EXACT)
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t",
        {
            "fields": [{"name": "d", "type": f"DECIMAL(38, {scale})"}, {"name": "id", "type": "INT"}],
            "primaryKeys": ["d", "id"],
            "partitionKeys": ["d"],
            "options": {"bucket": "1", "partition.legacy-name": legacy},
        },
    )
    table.upsert(pa.table({"d": pa.array([value], pa.decimal128(38, scale)), "id": [1]}))
    assert table.scan().to_arrow().to_pylist() == [{"d": value, "id": 1}]
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    text = ("-" if unscaled < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)
    assert (tmp_path / "d.db" / "t" / f"d={text}").is_dir()
