"""Column functions over operation codes equal the record-at-a-time functions, function by function and type by type."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from lakeidx.codec.values import arrow_to_internal, internal_to_arrow
from lakeidx.data.engines.functions import fold_column
from lakeidx.data.engines.options import FunctionSpec
from lakeidx.data.engines.runs import ADD, OLDER, RETRACT, SET, SET_RETRACT, SKIP, Runs
from lakeidx.data.engines.scalar.collections import identity
from lakeidx.errors import InvalidInputError
from lakeidx.types import parse_type
from tests.kit.reference_functions import fold_one_by_one, make_reference_function
from tests.property.test_engines import NUMBERS, SIMPLE, Values

VALUES = dict(SIMPLE)
ANY_ORDER = ["last_value", "last_non_null_value", "first_value", "first_non_null_value", "primary-key"]
RETRACTS = {"sum", "product", "last_value", "last_non_null_value", "primary-key"}
CASES = (
    [(f, t) for f in ("sum", "product") for t in VALUES if t.startswith(NUMBERS)]
    + [(f, t) for f in ("max", "min") for t in VALUES if t != "BOOLEAN"]
    + [(f, t) for f in ANY_ORDER for t in ("INT", "STRING", "BOOLEAN", "DECIMAL(38, 6)")]
    + [("bool_and", "BOOLEAN"), ("bool_or", "BOOLEAN"), ("listagg", "STRING")]
)


def draw_history(
    r: random.Random, draw: Values, function: str, mode: str
) -> tuple[list[int], list[list[tuple[int, Any]]]]:
    codes = [ADD]
    retracts = mode == "retracts" and function in RETRACTS
    if mode != "adds":
        codes += [ADD, SKIP, OLDER, SET] + ([RETRACT, RETRACT] if retracts else [])
    runs, at, starts = [], 0, []
    for _ in range(r.randint(1, 40)):
        run = []
        # Few values, so that they meet again.
        pool = [draw(r) for _ in range(r.choice([2, 3, 20]))]
        for i in range(r.choice([1, 2, 3, 5, 12])):
            op = r.choice(codes)
            if retracts and i == 0 and r.random() < 0.2:
                op = SET_RETRACT
            run.append((op, None if r.random() < 0.2 else r.choice(pool)))
        starts.append(at)
        at += len(run)
        runs.append(run)
    return starts, runs


@pytest.mark.parametrize(("function", "type_name"), CASES, ids=[f"{f}-{t}" for f, t in CASES])
@pytest.mark.parametrize("mode", ["adds", "no retracts", "retracts"])
def test_fold_equals_the_scalar_function(function: str, type_name: str, mode: str) -> None:
    t = parse_type(type_name)
    spec = FunctionSpec(name=function, type=t, column="c")
    r = random.Random(f"{function} {type_name} {mode}")
    errors = results = 0
    for _ in range(12):
        starts, runs = draw_history(r, VALUES[type_name], function, mode)
        rows = [x for run in runs for x in run]
        # A slice, so that buffers begin somewhere.
        column = internal_to_arrow([None, *(v for _, v in rows)], t).slice(1)
        ops = np.array([op for op, _ in rows], np.int8)
        try:
            expected = [fold_one_by_one(make_reference_function(spec), run) for run in runs]
        except InvalidInputError:
            errors += 1
            with pytest.raises(InvalidInputError, match="'c'"):
                fold_column(spec, column, Runs(np.array(starts), len(rows)), ops)
            continue
        results += 1
        out = fold_column(spec, column, Runs(np.array(starts), len(rows)), ops)
        assert out.type == column.type
        got = arrow_to_internal(out, t)
        assert [identity(v, t) for v in got] == [identity(v, t) for v in expected]
    assert results or function == "product", (results, errors)


@pytest.mark.parametrize(
    ("type_name", "values", "expected"),
    [
        ("TINYINT", [127, 1], -128),
        ("SMALLINT", [-32768, -1], 32767),
        ("INT", [2**31 - 1, 1], -(2**31)),
        ("BIGINT", [2**63 - 1, 2], -(2**63) + 1),
        # Summed in 32 bits: 2^24 + 1 is no float.
        ("FLOAT", [16777216.0, 1.0, 1.0], 16777216.0),
        ("DOUBLE", [0.1, 0.2, 0.3], 0.1 + 0.2 + 0.3),
        # Above 18 digits, more digits than the precision give null, and the next value starts anew.
        ("DECIMAL(19, 0)", [Decimal(10**19 - 1), Decimal(1)], None),
        ("DECIMAL(19, 0)", [Decimal(10**19 - 1), Decimal(1), Decimal(7)], Decimal(7)),
        # Up to 18 digits the sum keeps its digits until a long overflows.
        ("DECIMAL(3, 0)", [Decimal(999), Decimal(1)], Decimal(1000)),
        ("DECIMAL(18, 0)", [Decimal(10**18 - 1)] * 9, Decimal(9 * (10**18 - 1))),
        ("DECIMAL(18, 0)", [Decimal(10**18 - 1)] * 10, None),
    ],
)
def test_sums_in_java_arithmetic(type_name: str, values: list[Any], expected: Any) -> None:
    t = parse_type(type_name)
    spec = FunctionSpec(name="sum", type=t, column="c")
    column = internal_to_arrow(values, t)
    runs = Runs(np.zeros(1, np.int64), len(values))
    out = fold_column(spec, column, runs, np.full(len(values), ADD, np.int8))
    assert arrow_to_internal(out, t) == [expected]


def test_two_booleans_cannot_be_compared_but_one_can_stand() -> None:
    t = parse_type("BOOLEAN")
    spec = FunctionSpec(name="max", type=t, column="c")
    runs = Runs(np.array([0, 2]), 4)
    ops = np.full(4, ADD, np.int8)
    one_each = internal_to_arrow([None, True, False, None], t)
    assert fold_column(spec, one_each, runs, ops).to_pylist() == [True, False]
    with pytest.raises(InvalidInputError, match="'c': aggregate function max cannot compare values of BOOLEAN"):
        fold_column(spec, internal_to_arrow([True, True, False, None], t), runs, ops)


def test_a_factor_of_zero_cannot_be_taken_back() -> None:
    t = parse_type("INT")
    spec = FunctionSpec(name="product", type=t, column="c")
    column = internal_to_arrow([5, 0], t)
    with pytest.raises(InvalidInputError, match="'c': aggregate function product cannot retract a factor of 0"):
        fold_column(spec, column, Runs(np.zeros(1, np.int64), 2), np.array([ADD, RETRACT], np.int8))
