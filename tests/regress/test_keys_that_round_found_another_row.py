"""A key that is no value of the key column's type was rounded to one: a lookup found, and a delete took, another row."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.errors import InvalidInputError
from lakeidx.types import parse_type, to_arrow

NOON = datetime(2026, 1, 1, 12)
#: Type of the key column, its value; keys that mean it, keys that do not.
CASES: list[tuple[str, Any, list[pa.Array], list[pa.Array]]] = [
    ("DECIMAL(9, 2)", Decimal("0.12"), [pa.array([0.12])], [pa.array([0.123]), pa.array([None, 0.1199])]),
    ("DECIMAL(38, 2)", Decimal("5.00"), [pa.array([5.0]), pa.array([5])], [pa.array([5.001]).dictionary_encode()]),
    ("DATE", date(2026, 1, 1), [pa.array([datetime(2026, 1, 1)])],
     [pa.array([NOON]), pa.array([NOON.replace(tzinfo=UTC)])]),
    ("TIME(3)", NOON.time(), [pa.array([NOON.time()])], [pa.array([NOON])]),
    ("BOOLEAN", True, [pa.array([1])], [pa.array([5]), pa.array([0.5])]),
    ("BYTES", b"ab", [pa.array([b"ab"])], [pa.array(["ab"]), pa.array(["6162"], pa.large_string())]),
    ("INT", 1, [pa.array([1.0]), pa.array(["1"]).dictionary_encode()], [pa.array([1.5])]),
]  # fmt: skip


@pytest.mark.parametrize(("type_text", "value", "same", "others"), CASES, ids=[c[0] for c in CASES])
def test_a_key_is_never_rounded(
    tmp_path: Path, type_text: str, value: Any, same: list[pa.Array], others: list[pa.Array]
) -> None:
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t",
        {"fields": [{"name": "k", "type": type_text}], "primaryKeys": ["k"], "options": {"bucket": "1"}},
    )
    table.upsert(pa.table({"k": pa.array([value], to_arrow(parse_type(type_text)))}))
    for keys in same:
        assert table.lookup(pa.table({"k": keys})).column("_FOUND").to_pylist() == [True]
    for keys in others:
        with pytest.raises(InvalidInputError, match=r"key column 'k'"):
            table.lookup(pa.table({"k": keys}))
        with pytest.raises(InvalidInputError):
            table.delete(pa.table({"k": keys}))
    assert table.scan().to_arrow().num_rows == 1
