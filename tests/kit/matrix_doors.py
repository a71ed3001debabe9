"""What single doors do not have of the values of the matrix, in words for the docs; the ways in `tests.kit.matrix_*` skip it."""

from __future__ import annotations

#: Door, and what it does not have, or has otherwise: each is left out, or expected, by the way of that name.
EXCEPTIONS: tuple[tuple[str, str], ...] = (
    ("lists of dictionaries, pandas objects", "Python has no nanoseconds, and no years but 1 to 9999"),
    (
        "pandas",
        "NaN is null. As an IO manager's input, a moment of a zone in a ROW or MAP that is in another year is refused; "
        "`scan().to_arrow().to_pandas(types_mapper=pandas.ArrowDtype)` has every value",
    ),
    (
        "Polars, Parquet",
        "Arrow's 256-bit decimals (Polars) and dictionaries in nested columns (Parquet) are not written",
    ),
    (
        "ORC, Avro",
        "of ORC Arrow reads moments of 1677 to 2262 only, and refuses a file with others; ORC has no times of day; keys of Avro's "
        "maps are text; an Avro union of several types is refused",
    ),
    (
        "CSV, JSON, change messages",
        "nanoseconds of the second in which they begin (1677-09-21) may be rejected; moments that are in another year in every "
        "zone have no text",
    ),
    (
        "Debezium",
        "times count in the unit of the precision (milliseconds, microseconds, nanoseconds): what the unit does not have is not "
        "written by it",
    ),
    (
        "Spark",
        "digits beyond microseconds are left out; `TIME` works in queries, not in streams, and Spark Connect hands over none; "
        "pyspark's `toArrow` takes no null STRUCT with a required field",
    ),
    (
        "Spark's `INSERT`",
        "Spark casts before lakeidx sees a row: fractions become whole numbers, a DOUBLE beyond FLOAT infinite, and a `TIME(6)` "
        "does not become a `TIME` of fewer digits",
    ),
    ("Great Expectations", "as pandas"),
    ("pypaimon 2.1, pypaimon-rust 0.4", "read no MULTISET; pypaimon-rust hands over maps whose keys may be null"),
    (
        "pypaimon 2.1",
        "does not write dates and moments outside of the years 1 to 9999: one row of them is an OverflowError",
    ),
    (
        "Java Paimon 1.4.2",
        "does not write on what it reads of a `MULTISET<TIMESTAMP(3)>`: one row is a ClassCastException; 2.1 does",
    ),
)
