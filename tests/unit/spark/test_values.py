"""Points in time by the zone of a session, compared with what `zoneinfo` says; what Spark lacks of a table's values."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.landing.new_columns import new_columns
from lakeidx.types import Field, parse_type

pytest.importorskip("pyspark")

from lakeidx.spark.values import arrow_schema, in_zone, spark_schema, to_spark

ZONES = ["America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "Etc/UTC"]
POINT, CLOCK = "TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(6)"


def field(name: str, of: Any) -> Field:
    return Field(0, name, parse_type(of))


def moments(seed: int) -> list[datetime]:
    """Times from 1900 to 2037, many of them around the changes of clocks."""
    rng = random.Random(seed)
    some = [datetime(1900, 1, 1) + timedelta(seconds=rng.randrange(138 * 365 * 86400)) for _ in range(200)]
    for year in (1945, 1999, 2026):
        for day in (datetime(year, 3, 8), datetime(year, 3, 29), datetime(year, 10, 25), datetime(year, 11, 1)):
            some += [day + timedelta(minutes=15 * n) for n in range(20)]
    return some


@pytest.mark.parametrize("zone", ZONES)
def test_clocks_and_points_in_time(zone: str) -> None:
    there, clocks = ZoneInfo(zone), moments(7)
    rows = pa.table({"v": pa.array([*clocks, None], pa.timestamp("us"))})
    # Of what is shown twice zoneinfo takes the earlier, and what is left out it counts on from before, as Java does.
    expected = [c.replace(tzinfo=there).astimezone(UTC) for c in clocks]
    assert in_zone(rows, [field("v", POINT)], zone).column("v").to_pylist() == [*expected, None]
    points = pa.table({"v": pa.array([*clocks, None], pa.timestamp("us", zone))})
    shown = [p.astimezone(there).replace(tzinfo=None) for p in points.column("v").to_pylist() if p is not None]
    assert in_zone(points, [field("v", CLOCK)], None).column("v").to_pylist() == [*shown, None]
    assert in_zone(points, [field("v", POINT)], None).column("v").to_pylist() == points.column("v").to_pylist()
    assert in_zone(rows, [field("v", CLOCK)], None).equals(rows)


@pytest.mark.parametrize(("zone", "hours"), [("Z", 0), ("+02:00", 2), ("GMT+2", 2), ("UTC-0330", -3.5), ("UT+11", 11)])
def test_zones_that_are_written_as_spark_takes_them(zone: str, hours: float) -> None:
    clock = datetime(2026, 7, 1, 12)
    rows = pa.table({"v": pa.array([clock], pa.timestamp("us"))})
    (found,) = in_zone(rows, [field("v", POINT)], zone).column("v").to_pylist()
    assert found == (clock - timedelta(hours=hours)).replace(tzinfo=UTC)


def test_values_inside_of_others() -> None:
    t = {"type": "ROW", "fields": [
        {"id": 1, "name": "clock", "type": CLOCK},
        {"id": 2, "name": "points", "type": {"type": "MAP", "key": "INT", "value": {"type": "ARRAY", "element": POINT}}},
    ]}  # fmt: skip
    clock, point = pa.timestamp("us", "Asia/Kathmandu"), pa.timestamp("us")
    given = pa.struct([("other", pa.int32()), ("points", pa.map_(pa.int32(), pa.list_(point))), ("clock", clock)])
    moment = datetime(2026, 7, 1, 12)
    values = [None, {"other": 1, "points": [(1, [moment, None]), (2, None)], "clock": moment.replace(tzinfo=UTC)},
              {"other": None, "points": None, "clock": None}]  # fmt: skip
    # A slice, and in chunks, as batches of Spark may be.
    column = pa.chunked_array([pa.array([values[1], *values], given).slice(1), pa.array([], given)])
    found = in_zone(pa.table({"v": column}), [field("v", t)], "Asia/Kathmandu").column("v")
    found.validate(full=True)
    earlier, later = moment - timedelta(hours=5, minutes=45), moment + timedelta(hours=5, minutes=45)
    assert found.to_pylist() == [
        None,
        {"other": 1, "points": [(1, [earlier.replace(tzinfo=UTC), None]), (2, None)], "clock": later},
        values[2],
    ]


def test_a_zone_that_is_needed_and_not_known() -> None:
    rows = pa.table({"v": pa.array([datetime(2026, 7, 1)], pa.timestamp("us"))})
    with pytest.raises(
        InvalidInputError, match="column v: without a zone, it becomes a point in time by the session's"
    ):
        in_zone(rows, [field("v", POINT)], None)
    with pytest.raises(InvalidInputError, match=r"column v: .*'PST' is not known here: write it as Europe/Berlin"):
        in_zone(rows, [field("v", POINT)], "PST")


def test_what_spark_does_not_have_of_a_value() -> None:
    fields = [
        field("v", "TIMESTAMP(9)"),
        field("l", {"type": "ARRAY", "element": "TIMESTAMP(9)"}),
        field("t", "TIME(3)"),
    ]
    nanos = pa.array([-1, 1999, None]).cast(pa.timestamp("ns"))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 3], pa.int32()), nanos)
    times = pa.array([1, None, 86_399_999], pa.time32("ms"))
    rows = pa.table({"v": nanos, "l": lists, "t": times})
    wanted = arrow_schema(spark_schema(fields))
    found = to_spark(rows, wanted)
    assert found.schema.equals(wanted, check_metadata=True)
    assert found.column("v").cast(pa.int64()).to_pylist() == [-1, 1, None]
    assert found.column("l").combine_chunks().values.cast(pa.int64()).to_pylist() == [-1, 1, None]
    assert found.column("t").cast(pa.int64()).to_pylist() == [1_000_000, None, 86_399_999_000_000]


def test_columns_that_a_frame_brings_have_a_type_for_all_their_values() -> None:
    given = {
        "bytes": ("BYTES", "BYTES"),
        "inside": ({"type": "ARRAY", "element": "BINARY(4)"}, "ARRAY<BYTES>"),
        "va": ("VARIANT", "VARIANT"),
        "row": ({"type": "ROW", "fields": [{"id": 1, "name": "va", "type": "VARIANT"}, {"id": 2, "name": "b", "type": "BYTES"}]},
                "ROW<va VARIANT, b BYTES>"),
        "t": ("TIME(0)", "TIME(3)"),
        "clock": ("TIMESTAMP(3)", "TIMESTAMP(6)"),
        "point": ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    }  # fmt: skip
    frame = arrow_schema(spark_schema([field(n, t) for n, (t, _) in given.items()]))
    assert {n: str(t) for n, t in new_columns(frame, [], "add").items()} == {n: t for n, (_, t) in given.items()}
