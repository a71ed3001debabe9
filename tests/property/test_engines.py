"""Vectorised merge engines equal their record-at-a-time twins, for random schemas, options and histories of many keys."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.values import arrow_to_internal, internal_to_arrow
from lakeidx.data.engines import make_engine
from lakeidx.data.engines.scalar.collections import identity
from lakeidx.data.row_kinds import is_retract
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.types import DataType, Field, Root, parse_type
from tests.kit.reference_engines import Record, make_reference_engine, merge_reduced

Values = Callable[[random.Random], Any]


def _decimal(digits: int, scale: int) -> Values:
    top = 10**digits - 1
    # 2^63 and 2^64 move the carry between the words of a 128-bit sum.
    edges = [v for v in (top, -top, 1, -1, 2 * 10**scale, top // 2, 2**63, 2**64, -(2**64)) if abs(v) <= top]

    def draw(r: random.Random) -> Decimal:
        unscaled = r.choice([r.randint(-99, 99), r.randint(-top, top), *edges])
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))

    return draw


def _float32(r: random.Random) -> float:
    value = _float(r)
    return value if abs(value) == float("inf") else float(np.float32(np.clip(value, -3e38, 3e38)))


def _float(r: random.Random) -> float:
    return r.choice([0.0, -0.0, 1.5, -2.25, 1e300, -1e300, float("nan"), float("inf"), r.uniform(-10, 10), 0.1])


def _integer(bits: int) -> Values:
    half = 1 << (bits - 1)
    return lambda r: r.choice([r.randint(-5, 5), -half, half - 1, -1, 0, r.randint(-half, half - 1)])


def _text(r: random.Random) -> str:
    return r.choice(["", "a", "b", "a,b", "é", "😀", "ｚ", "b,a,b", "longer than seven bytes", " "])


def _some(draw: Values, most: int = 4) -> Values:
    return lambda r: [None if r.random() < 0.2 else draw(r) for _ in range(r.randint(0, most))]


def _small(r: random.Random) -> int:
    return r.randint(0, 20)


def _nested(r: random.Random) -> Any:
    row = lambda: (r.choice([None, 1, 2, 3]), r.choice([None, "x", "y"]), r.choice([None, 5, 6]))  # noqa: E731
    return [None if r.random() < 0.1 else row() for _ in range(r.randint(0, 4))]  # type: ignore[no-untyped-call]


def _map(r: random.Random) -> Any:
    return [(k, r.choice([None, 1, 2])) for k in r.sample(["a", "b", "c", "dd", "longer than eight"], r.randint(0, 4))]


def _timed(r: random.Random) -> Any:
    value = lambda: r.choice([None, (1, "2024"), (2, "2025"), (3, None), (4, "\uffff"), (5, "😀")])  # noqa: E731
    return [(k, value()) for k in r.sample(["a", "b", "c"], r.randint(0, 3))]  # type: ignore[no-untyped-call]


ROW_FIELDS = [("k", "INT"), ("x", "STRING"), ("y", "BIGINT")]
ROW = {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, (n, t) in enumerate(ROW_FIELDS)]}
TIMED = {"type": "ROW", "fields": [{"id": 0, "name": "v", "type": "INT"}, {"id": 1, "name": "ts", "type": "STRING"}]}
SIMPLE: list[tuple[Any, Values]] = [
    ("BOOLEAN", lambda r: r.random() < 0.5),
    ("TINYINT", _integer(8)),
    ("SMALLINT", _integer(16)),
    ("INT", _integer(32)),
    ("BIGINT", _integer(64)),
    ("FLOAT", _float32),
    ("DOUBLE", _float),
    ("DECIMAL(9, 2)", _decimal(9, 2)),
    ("DECIMAL(18, 0)", _decimal(18, 0)),
    ("DECIMAL(20, 3)", _decimal(20, 3)),
    ("DECIMAL(38, 6)", _decimal(38, 6)),
    ("DATE", lambda r: r.randint(-5, 5)),
    ("TIME(3)", lambda r: r.randint(0, 5)),
    ("TIMESTAMP(3)", lambda r: (r.randint(-5, 5), 0)),
    ("TIMESTAMP(6)", lambda r: (r.randint(-5, 5), r.choice([0, 1000, 999000]))),
    ("TIMESTAMP(9) WITH LOCAL TIME ZONE", lambda r: (r.randint(-5, 5), r.choice([0, 1, 999999]))),
    ("STRING", _text),
    ("VARCHAR(30)", _text),
    ("BYTES", lambda r: _text(r).encode()),
]
NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
RETRACTABLE = ("sum", "product", "last_value", "last_non_null_value", "collect", "merge_map", "nested_update")
ANY = ("last_value", "last_non_null_value", "first_value", "first_non_null_value", "first_not_null_value")
ARRAYS: list[tuple[Any, Values]] = [
    ({"type": "ARRAY", "element": "INT"}, _some(_small)),
    ({"type": "ARRAY", "element": "STRING"}, _some(_text)),
    ({"type": "ARRAY", "element": "DOUBLE"}, _some(_float)),
    ({"type": "ARRAY", "element": {"type": "ARRAY", "element": "INT"}}, _some(_some(_small, 2), 3)),
]


def functions_of(r: random.Random, *, retractable: bool) -> tuple[Any, Values, str, dict[str, str]]:
    """A column type, its values, an aggregate function and that function's options.

    retractable   a function that can take values back, or an option to skip retracts
    """
    t, draw, function, more = _any_function(r)
    if retractable and function not in RETRACTABLE:
        more["ignore-retract"] = "true"
    if function == "product":
        # Factors of 0 and quotients without end are errors; let most histories go without.
        usual = draw
        draw = (lambda r: usual(r) or type(usual(r))(2)) if r.random() < 0.8 else usual
    return t, draw, function, more


def _any_function(r: random.Random) -> tuple[Any, Values, str, dict[str, str]]:
    what = r.random()
    if what < 0.1:
        t, draw = r.choice(ARRAYS)
        return t, draw, "collect", {"distinct": r.choice(["true", "false"])}
    if what < 0.16:
        return {"type": "MAP", "key": "STRING", "value": "INT"}, _map, "merge_map", {}
    if what < 0.2:
        return {"type": "MAP", "key": "STRING", "value": TIMED}, _timed, "merge_map_with_keytime", {}
    if what < 0.27:
        name = r.choice(["nested_update", "nested_partial_update"])
        more = (
            {"nested-key": r.choice(["k", "x", "k,x"])} if name.endswith("partial_update") or r.random() < 0.7 else {}
        )
        more |= {"count-limit": "3"} if r.random() < 0.3 else {}
        return {"type": "ARRAY", "element": ROW}, _nested, name, more
    if what < 0.33:
        joined = {"distinct": r.choice(["true", "false"]), "list-agg-delimiter": r.choice([",", "--"])}
        return "STRING", _text, "listagg", joined
    if what < 0.7:
        t, draw = r.choice([x for x in SIMPLE if x[0].startswith(NUMBERS)])
        return t, draw, r.choice(["sum", "sum", "product"]), {}
    t, draw = r.choice(SIMPLE)
    names = [*ANY, "max", "min"] if t != "BOOLEAN" else [*ANY, "bool_and", "bool_or"]
    return t, draw, r.choice(names), {}


class Table:
    """A random schema with what its columns draw."""

    def __init__(self, fields: list[tuple[str, Any, Values]], options: dict[str, str], retract: float) -> None:
        self.draws = [draw for _, _, draw in fields]
        self.retract = retract
        self.schema = TableSchema(
            id=0,
            fields=tuple(Field(i, name, parse_type(t)) for i, (name, t, _) in enumerate(fields)),
            highest_field_id=1000,
            primary_keys=("id",),
            options=options,
        )


MANY = int(os.environ.get("LAKEIDX_EXAMPLES", "250"))
KEY: tuple[str, Any, Values] = ("id", "INT NOT NULL", lambda r: 0)


def aggregation_table(r: random.Random) -> Table:
    options = {"merge-engine": "aggregation"}
    remove = r.random() < 0.3
    if remove:
        options["aggregation.remove-record-on-delete"] = "true"
    fields = [KEY]
    retractable = r.random() < 0.5
    for i in range(r.randint(1, 5)):
        t, draw, function, more = functions_of(r, retractable=retractable and not remove)
        name = f"c{i}"
        if r.random() < 0.1:
            function = "last_non_null_value"
        else:
            options[f"fields.{name}.aggregate-function"] = function
        if retractable and not remove and r.random() < 0.2:
            more["ignore-retract"] = "true"
        options |= {f"fields.{name}.{k}": v for k, v in more.items()}
        fields.append((name, t, draw))
    r.shuffle(fields)
    return Table(fields, options, 0.3 if retractable else r.choice([0.0, 0.0, 0.01]))


def partial_update_table(r: random.Random) -> Table:
    options = {"merge-engine": "partial-update"}
    names = [f"c{i}" for i in range(r.randint(1, 7))]
    fields = [KEY]
    for name in names:
        t, draw = r.choice(SIMPLE)
        if r.random() < 0.1:
            t += " NOT NULL"
        fields.append((name, t, draw))
    free = list(names)
    r.shuffle(free)
    sequence_columns = []
    retractable = r.random() < 0.7
    if r.random() < 0.6:
        for _ in range(r.randint(1, 2)):
            sequence = [free.pop() for _ in range(min(len(free), r.randint(1, 2)))]
            members = [free.pop() for _ in range(min(len(free), r.randint(1, 3)))]
            if not sequence or not members:
                break
            sequence_columns += sequence
            options[f"fields.{','.join(sequence)}.sequence-group"] = ",".join(members)
            for at, field in enumerate(fields):
                if field[0] in members and r.random() < 0.5:
                    t, draw, function, more = functions_of(r, retractable=retractable)
                    fields[at] = (field[0], t, draw)
                    more |= {"ignore-retract": "true"} if r.random() < 0.1 else {}
                    options[f"fields.{field[0]}.aggregate-function"] = function
                    options |= {f"fields.{field[0]}.{k}": v for k, v in more.items()}
    what = r.random()
    if what < 0.25:
        options["ignore-delete"] = "true"
    elif what < 0.6 and sequence_columns:
        chosen = r.sample(sequence_columns, r.randint(1, len(sequence_columns)))
        options["partial-update.remove-record-on-sequence-group"] = ",".join(chosen)
    elif what < 0.6:
        options["partial-update.remove-record-on-delete"] = "true"
    r.shuffle(fields)
    return Table(fields, options, r.choice([0.0, 0.3]) if what < 0.6 or sequence_columns else r.choice([0.0, 0.01]))


def simple_table(r: random.Random) -> Table:
    options = {"merge-engine": r.choice(["deduplicate", "first-row"])}
    ignore = r.random() < 0.6
    if ignore:
        options[r.choice(["ignore-delete", f"{options['merge-engine']}.ignore-delete"])] = "true"
    fields = [KEY, *((f"c{i}", *r.choice(SIMPLE)) for i in range(2))]
    wild = ignore or options["merge-engine"] == "deduplicate"
    return Table(fields, options, 0.4 if wild else r.choice([0.0, 0.01]))


def draw_runs(table: Table, r: random.Random, keys: int) -> list[list[Record]]:
    """Histories of keys; nulls at random, in NOT NULL columns rarely."""
    runs = []
    sequence = 0
    null_in_not_null = r.random() < 0.1
    for key in range(keys):
        run = []
        for _ in range(r.choice([1, 1, 2, 3, 6, 14])):
            values = []
            for field, draw in zip(table.schema.fields, table.draws, strict=True):
                chance = 0.3 if field.type.nullable else 0.02 if null_in_not_null else 0.0
                values.append(key if field.name == "id" else None if r.random() < chance else draw(r))
            sequence += r.randint(0, 2)
            kind = r.choice([1, 3]) if r.random() < table.retract else r.choice([0, 0, 2])
            run.append(Record(kind, sequence, tuple(values)))
        runs.append(run)
    return runs


def as_table(records: list[Record], schema: TableSchema, r: random.Random) -> pa.Table:
    columns = [pa.array([x.sequence for x in records], pa.int64()), pa.array([x.kind for x in records], pa.int8())]
    columns += [internal_to_arrow([x.values[i] for x in records], f.type) for i, f in enumerate(schema.fields)]
    whole = pa.table(columns, names=schema.kv_arrow_schema.names)
    # Engines must not care how a table is cut into chunks or where its buffers begin.
    cut = r.randint(0, len(records))
    return pa.concat_tables([whole.slice(0, cut), whole.slice(cut)]) if r.random() < 0.5 else whole


def as_records(table: pa.Table, schema: TableSchema) -> list[tuple[Any, ...]]:
    columns = [arrow_to_internal(table.column(f.name), f.type) for f in schema.fields]
    values = zip(*columns, strict=True) if columns else iter(())
    kinds, sequences = table.column("_VALUE_KIND").to_pylist(), table.column("_SEQUENCE_NUMBER").to_pylist()
    return [(k, s, comparable(v, schema)) for k, s, v in zip(kinds, sequences, values, strict=True)]


def comparable(values: tuple[Any, ...], schema: TableSchema) -> tuple[Any, ...]:
    """Values that are equal when they are the same bits; the order of map entries counts."""
    return tuple(_comparable(v, f.type) for v, f in zip(values, schema.fields, strict=True))


def _comparable(value: Any, t: DataType) -> Any:
    if value is not None and t.root is Root.MAP and t.key is not None and t.element is not None:
        return tuple((identity(k, t.key), identity(v, t.element)) for k, v in value)
    return identity(value, t)


@settings(max_examples=MANY, deadline=None)
@given(
    seed=st.integers(0, 2**48),
    make=st.sampled_from([aggregation_table, partial_update_table, partial_update_table, simple_table]),
    keys=st.sampled_from([0, 1, 3, 12]),
    shortcut=st.booleans(),
)
def test_vectorised_engine_equals_its_twin(
    seed: int, make: Callable[[random.Random], Table], keys: int, shortcut: bool
) -> None:
    r = random.Random(seed)
    table = make(r)
    runs = draw_runs(table, r, keys)
    kv = as_table([x for run in runs for x in run], table.schema, r)
    starts = np.cumsum([0, *(len(run) for run in runs)])[:-1]
    twin = make_reference_engine(table.schema)
    engine = make_engine(table.schema)
    try:
        merged = [merge_reduced(twin, run) if shortcut else twin.merge(run) for run in runs]
    except InvalidInputError:
        with pytest.raises(InvalidInputError):
            engine.merge(kv, starts, shortcut=shortcut)
        return
    out = engine.merge(kv, starts, shortcut=shortcut)
    assert out.schema.names == kv.schema.names
    expected_rows = [(m.kind, m.sequence, comparable(m.values, table.schema)) for m in merged if m is not None]
    assert as_records(out, table.schema) == expected_rows


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**48))
def test_required_columns_give_the_same_values(seed: int) -> None:
    """A merge over some columns and what they require equals those columns of the whole merge."""
    r = random.Random(seed)
    table = r.choice([aggregation_table, partial_update_table, simple_table])(r)
    runs = draw_runs(table, r, 8)
    kv = as_table([x for run in runs for x in run], table.schema, r)
    starts = np.cumsum([0, *(len(run) for run in runs)])[:-1]
    engine = make_engine(table.schema)
    wanted = r.sample(table.schema.field_names, r.randint(1, len(table.schema.fields)))
    try:
        whole = engine.merge(kv, starts)
    except InvalidInputError:
        return
    needed = engine.required_columns(wanted)
    assert needed[: len(wanted)] == wanted
    part = engine.merge(kv.select(["_SEQUENCE_NUMBER", "_VALUE_KIND", *needed]), starts)
    same = ["_SEQUENCE_NUMBER", "_VALUE_KIND", *wanted]
    for name in same:
        assert (
            part.column(name).combine_chunks().to_pylist().__repr__()
            == whole.column(name).combine_chunks().to_pylist().__repr__()
        )


def test_histories_reach_every_rule() -> None:
    """The generators make what the property is about: retracts that succeed, removals, errors, ignored keys."""
    seen: dict[str, int] = {}
    for seed in range(1500):
        r = random.Random(seed)
        table = r.choice([aggregation_table, partial_update_table, simple_table])(r)
        twin = make_reference_engine(table.schema)
        for run in draw_runs(table, r, 3):
            try:
                merged = twin.merge(run)
            except InvalidInputError:
                what = "error"
            else:
                what = "ignored" if merged is None else "removed" if merged.kind == 3 else "merged"
                if what == "merged" and any(is_retract(x.kind) for x in run):
                    what = "merged with retracts"
            key = f"{table.schema.options['merge-engine']}: {what}"
            seen[key] = seen.get(key, 0) + 1
    wanted = [
        f"{e}: {w}" for e in ("partial-update", "aggregation") for w in ("error", "removed", "merged with retracts")
    ]
    for key in [*wanted, "deduplicate: ignored", "first-row: ignored", "first-row: error"]:
        assert seen.get(key, 0) >= 5, (key, seen)
