"""A JSON object or array in a STRING column had its numbers changed to strings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakeidx

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
        {
            "fields": [{"name": "id", "type": "INT"}, {"name": "s", "type": "STRING"}],
            "primaryKeys": ["id"],
            "options": {"bucket": "1"},
        },
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
