"""WHERE text: what is read, what is refused and in which words."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.predicate import FALSE, TRUE, And, Compare, In, IsNull, Match, MatchKind, Op, Or
from lakeidx.predicate.parse import parse_where
from lakeidx.types import Field, parse_type

TYPES: dict[str, Any] = {
    "i": "INT",
    "tiny": "TINYINT",
    "s": "STRING",
    "d": "DATE",
    "ts": "TIMESTAMP(3)",
    "ltz": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "t": "TIME(3)",
    "dec": "DECIMAL(10, 2)",
    "f": "FLOAT",
    "x": "DOUBLE",
    "flag": "BOOLEAN",
    "b": "BYTES",
    "odd name": "INT",
    "m": {"type": "MAP", "key": "STRING", "value": "INT"},
    "n": {"type": "MAP", "key": "INT", "value": "INT"},
    "arr": {"type": "ARRAY", "element": "INT"},
}
FIELDS = [Field(k, name, parse_type(t)) for k, (name, t) in enumerate(TYPES.items())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = 5", Compare("i", Op.EQ, 5)),
        ("5 < i", Compare("i", Op.GT, 5)),
        ("i >= -7", Compare("i", Op.GE, -7)),
        ("i = '12'", Compare("i", Op.EQ, 12)),
        ("NOT i = 5", Compare("i", Op.NE, 5)),
        ("i BETWEEN 1 AND 2", And((Compare("i", Op.GE, 1), Compare("i", Op.LE, 2)))),
        ("i NOT BETWEEN 1 AND 2", Or((Compare("i", Op.LT, 1), Compare("i", Op.GT, 2)))),
        ("i IN (1, 2, NULL, 2)", In("i", (1, 2, None))),
        ("i NOT IN (1)", In("i", (1,), negated=True)),
        ("i IS NULL", IsNull("i")),
        ("i IS NOT NULL", IsNull("i", negated=True)),
        ("i = NULL", Compare("i", Op.EQ, None)),
        ("i <=> NULL", IsNull("i")),
        ("i <=> 5", And((Compare("i", Op.EQ, 5), IsNull("i", negated=True)))),
        ("i IS DISTINCT FROM 5", Or((Compare("i", Op.NE, 5), IsNull("i")))),
        ("flag", Compare("flag", Op.EQ, True)),
        ("NOT flag", Compare("flag", Op.NE, True)),
        ("flag IS NOT TRUE", Or((Compare("flag", Op.NE, True), IsNull("flag")))),
        ("TRUE", TRUE),
        ("FALSE OR i = 1", Compare("i", Op.EQ, 1)),
        ("i = 1 AND FALSE", FALSE),
        ("NOT (i = 1 OR s IS NULL)", And((Compare("i", Op.NE, 1), IsNull("s", negated=True)))),
        ("s = 'it''s'", Compare("s", Op.EQ, "it's")),
        ("s = 'a\\x41'", Compare("s", Op.EQ, "a\\x41")),
        ("s LIKE 'x%'", Match("s", MatchKind.PREFIX, "x")),
        ("s NOT LIKE 'x%'", Match("s", MatchKind.PREFIX, "x", negated=True)),
        ("NOT s NOT LIKE 'x%'", Match("s", MatchKind.PREFIX, "x")),
        ("s LIKE '%x'", Match("s", MatchKind.SUFFIX, "x")),
        ("s LIKE '%x%'", Match("s", MatchKind.CONTAINS, "x")),
        ("s LIKE 'x'", Compare("s", Op.EQ, "x")),
        ("s LIKE ''", Compare("s", Op.EQ, "")),
        ("s LIKE '%'", Match("s", MatchKind.PREFIX, "")),
        ("s LIKE 'x\\%%'", Match("s", MatchKind.PREFIX, "x%")),
        ("s LIKE 'x!_!%%' ESCAPE '!'", Match("s", MatchKind.PREFIX, "x_%")),
        ("s LIKE 'a_!%b\\%' ESCAPE '!'", Match("s", MatchKind.LIKE, "a_\\%b\\\\%")),
        ("s LIKE NULL", Compare("s", Op.EQ, None)),
        ("startswith(s, 'x')", Match("s", MatchKind.PREFIX, "x")),
        ("endswith(s, 'x')", Match("s", MatchKind.SUFFIX, "x")),
        ("contains(s, 'x')", Match("s", MatchKind.CONTAINS, "x")),
        ("d = '2024-01-01'", Compare("d", Op.EQ, 19723)),
        ("d < DATE '1970-01-02'", Compare("d", Op.LT, 1)),
        ("d < CAST('1970-01-02' AS DATE)", Compare("d", Op.LT, 1)),
        ("d >= '2024-01-01 10:00:00'", Compare("d", Op.GT, 19723)),
        ("ts = '2024-01-01'", Compare("ts", Op.EQ, (1704067200000, 0))),
        ("ts = TIMESTAMP '2024-01-01 10:00:00.123'", Compare("ts", Op.EQ, (1704103200123, 0))),
        ("ts > '2024-01-01T10:00:00.1234'", Compare("ts", Op.GT, (1704103200123, 0))),
        ("ts <= '1969-12-31 23:59:59.9995'", Compare("ts", Op.LE, (-1, 0))),
        ("ltz = '2024-01-01T10:00:00.000001+02:00'", Compare("ltz", Op.EQ, (1704096000000, 1000))),
        ("ltz = '2024-01-01 08:00:00Z'", Compare("ltz", Op.EQ, (1704096000000, 0))),
        ("t = '10:11'", Compare("t", Op.EQ, 36660000)),
        ("t = TIME '00:00:00.5'", Compare("t", Op.EQ, 500)),
        ("dec = 1.2", Compare("dec", Op.EQ, Decimal("1.20"))),
        ("dec > 1.234", Compare("dec", Op.GT, Decimal("1.23"))),
        ("dec >= -1.234", Compare("dec", Op.GT, Decimal("-1.24"))),
        ("dec < 100000000", In("dec", (), negated=True)),
        ("i > 5.5", Compare("i", Op.GT, 5)),
        ("i <= 5.5", Compare("i", Op.LE, 5)),
        ("i = 5.5", In("i", ())),
        ("i <> 5.5", In("i", (), negated=True)),
        ("NOT i <> 5.5", In("i", ())),
        ("i IN (1, 2.5, 99999999999)", In("i", (1,))),
        ("tiny < 300", In("tiny", (), negated=True)),
        ("tiny > 300", In("tiny", ())),
        ("tiny > -129", In("tiny", (), negated=True)),
        ("i = 1e2", Compare("i", Op.EQ, 100)),
        ("f = 1.1", Compare("f", Op.EQ, 1.100000023841858)),
        ("x = 1.1", Compare("x", Op.EQ, 1.1)),
        ("x > '-Infinity'", Compare("x", Op.GT, -math.inf)),
        ("f > 1e39", Compare("f", Op.GT, 3.4028234663852886e38)),
        ("b = X'1fAB'", Compare("b", Op.EQ, b"\x1f\xab")),
        ("b = x''", Compare("b", Op.EQ, b"")),
        ("`odd name` = 1", Compare("odd name", Op.EQ, 1)),
        ('"odd name" = 1', Compare("odd name", Op.EQ, 1)),
        ("m['k'] = 5", Compare("m[k]", Op.EQ, 5, "k")),
        ("m['a]b'] IS NULL", IsNull("m[a]b]", map_key="a]b")),
        ("arr IS NOT NULL", IsNull("arr", negated=True)),
        ("((i)) = ((5)) -- a comment", Compare("i", Op.EQ, 5)),
    ],
)
def test_sql_text_is_parsed(text: str, expected: object) -> None:
    assert parse_where(text, FIELDS) == expected


def test_nan_is_a_literal_of_float_columns() -> None:
    pred = parse_where("x = 'NaN'", FIELDS)
    assert isinstance(pred, Compare)
    assert math.isnan(pred.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("I = 5", "did you mean 'i'"),
        ("tss = '2024-01-01'", "did you mean 'ts'"),
        ("zzzzzz = 5", "the table has: i, tiny"),
        ("", "empty"),
        ("i =", "cannot read"),
        ("i = 5 ORDER BY i", "cannot read"),
        ("i = 5; DROP TABLE t", "cannot read"),
        ("i = 'x", "cannot read"),
        ("i = 'x'", "'x' cannot be compared with INT"),
        ("i = TRUE", "cannot be compared with INT"),
        ("s = 5", "write it in quotes"),
        ('s = "word"', "write a string as 'word'"),
        ("flag = 1", "write TRUE or FALSE"),
        ("b = 'x'", "X'1F'"),
        ("d > 2024-01-01", "a literal is needed"),
        ("d > 2024", "as strings"),
        ("d = '2024-13-01'", "cannot be compared with DATE"),
        ("d = '2023-02-29'", "cannot be compared with DATE"),
        ("t = '25:00'", "no such time"),
        ("ts = '2024-01-01T10:00:00Z'", "no time zone"),
        ("ts = TIMESTAMP_LTZ '2024-01-01'", "no time zone"),
        ("arr = 5", "cannot be compared"),
        ("arr = NULL", "cannot be compared"),
        ("m = 5", "cannot be compared"),
        ("n['k'] = 5", "map with string keys"),
        ("i['k'] = 5", "map with string keys"),
        ("m[1] = 5", "column['key']"),
        ("i", "not a condition"),
        ("i = x", "two columns"),
        ("UPPER(s) = 'X'", "must be a column"),
        ("i + 1 = 2", "must be a column"),
        ("1 = 1", "must be a column"),
        ("i = CURRENT_DATE", "a literal is needed"),
        ("i = CAST(5.7 AS INT)", "instead of a cast"),
        ("d = CAST('2024-01-01 10:00' AS DATE)", "instead of a cast"),
        ("ts = CAST('2024-01-01 10:00:00.5' AS TIMESTAMP(0))", "instead of a cast"),
        ("i IN (SELECT 1)", "not supported"),
        ("EXISTS (SELECT 1)", "not supported"),
        ("(i, s) IN ((1, 'x'))", "must be a column"),
        ("s RLIKE 'x'", "not supported"),
        ("s ILIKE 'x'", "not supported"),
        ("s NOT ILIKE 'x'", "not supported"),
        ("s LIKE 'x\\'", "ends in its escape"),
        ("s LIKE 'x' ESCAPE 'ab'", "one character"),
        ("i LIKE '1%'", "needs a string column"),
        ("startswith(i, '1')", "needs a string column"),
        ("m.k = 1", "field inside a column"),
        ("i = 5 = TRUE", "must be a column"),
        ("CASE WHEN i = 1 THEN flag END", "not supported"),
        ("NULL", "not supported"),
        ("*", "not supported"),
        ("i BETWEEN SYMMETRIC 5 AND 1", "not supported"),
        ("NOT " * 3000 + "flag", "nested too deeply"),
    ],
)
def test_refuses_in_plain_words(text: str, part: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_where(text, FIELDS)
    assert part in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.slow
def test_long_lists_are_flat() -> None:
    many = parse_where(" OR ".join(f"i = {k}" for k in range(3000)), FIELDS)
    assert isinstance(many, In)
    assert len(many.values) == 3000
    listed = parse_where(f"i IN ({', '.join(map(str, range(5000)))})", FIELDS)
    assert isinstance(listed, In)
    assert len(listed.values) == 5000
