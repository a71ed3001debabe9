"""Random batches with columns of any type against a plain model of what the table's columns and rows become."""

from __future__ import annotations

import random
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeidx
from lakeidx.errors import InvalidInputError
from lakeidx.landing.types import LandingOptions

#: Types as Arrow has them, and as columns are called.
TYPES = {
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(5, 2)": pa.decimal128(5, 2),
    "DECIMAL(9, 2)": pa.decimal128(9, 2),
    "STRING": pa.string(),
}
GROWS = {
    ("SMALLINT", "INT"),
    ("SMALLINT", "BIGINT"),
    ("INT", "BIGINT"),
    ("FLOAT", "DOUBLE"),
    ("DECIMAL(5, 2)", "DECIMAL(9, 2)"),
}


class Model:
    """Columns and rows as they have to be; all values are small whole numbers, which every type holds."""

    def __init__(self) -> None:
        self.types = {"k": "INT", "a": "SMALLINT"}
        self.rows: dict[int, dict[str, float | None]] = {}

    def upsert(self, types: dict[str, str], rows: list[dict[str, Any]], policy: str) -> bool:
        """Take a batch; False when it has to be refused."""
        if policy == "refuse" and not set(types) <= set(self.types):
            return False
        for name, t in types.items():
            old = self.types.setdefault(name, t)
            if policy == "widen" and name != "k" and (old, t) in GROWS:
                self.types[name] = t
        self.rows.update({r["k"]: r for r in rows})
        return True

    def all(self) -> list[dict[str, float | None]]:
        return [{n: self.rows[k].get(n) for n in self.types} for k in sorted(self.rows)]


def as_written(value: int | None, t: str) -> Any:
    return value if value is None else str(value) if t == "STRING" else Decimal(value) if t.startswith("DEC") else value


def batch(chance: random.Random) -> tuple[dict[str, str], list[dict[str, Any]], pa.Table]:
    names = chance.sample("abcde", chance.randint(1, 4))
    types = {"k": chance.choice(["SMALLINT", "INT", "BIGINT"]), **{n: chance.choice(list(TYPES)) for n in names}}
    keys = chance.sample(range(8), chance.randint(1, 4))
    rows = [{"k": k, **{n: chance.choice([None, *range(90)]) for n in names}} for k in keys]
    table = pa.table({n: pa.array([as_written(r[n], t) for r in rows], TYPES[t]) for n, t in types.items()})
    return types, rows, table


@pytest.mark.parametrize("seed", range(8))
def test_columns_and_rows_are_those_of_the_model(tmp_path: Path, seed: int) -> None:
    chance, model = random.Random(seed), Model()
    fields = [{"name": "k", "type": "INT"}, {"name": "a", "type": "SMALLINT"}]
    spec = {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1"}}
    table = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", spec)
    for step in range(6):
        types, rows, arrow = batch(chance)
        policy = chance.choice(["refuse", "add", "widen"])
        before = dict(model.types)
        taken = model.upsert(types, rows, policy)
        file = f"{tmp_path}/{step}.parquet"
        pq.write_table(arrow, file)
        options = LandingOptions(merge_schema=policy, missing="null")
        schemas = len(table.metadata.schema_ids())
        with nullcontext() if taken else pytest.raises(InvalidInputError, match="columns the table does not have"):
            if chance.random() < 0.5:
                table.upsert(arrow, merge_schema=policy, missing="null")
            else:
                table.upsert_files([file], options)
        found = lakeidx.Table.open(table.uri)
        assert {f.name: str(f.type.with_nullable(True)) for f in found.schema.fields} == model.types
        assert len(found.metadata.schema_ids()) == schemas + (model.types != before)
        shown = found.scan().to_arrow().sort_by("k").to_pylist()
        assert [{n: None if v is None else float(v) for n, v in r.items()} for r in shown] == model.all()
