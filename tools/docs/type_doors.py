"""Fill the part of docs/reading.md that shows each type at each door: as what libraries have it, and what they do not have."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa

from lakeidx.spark.values import spark_schema
from lakeidx.types import Field, parse_type, to_arrow
from tests.kit.matrix_changes import CHANGES_IN
from tests.kit.matrix_doors import EXCEPTIONS
from tests.kit.matrix_in import WAYS_IN
from tests.kit.matrix_out import WAYS_OUT
from tools.docs.docstrings import table

PAGE = Path(__file__).resolve().parents[2] / "docs/reading.md"
_LTZ = "WITH LOCAL TIME ZONE"
_WORDS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "CHAR(4)", "STRING", "BYTES", "DATE",
    "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", f"TIMESTAMP(3) {_LTZ}", f"TIMESTAMP(6) {_LTZ}",
    f"TIMESTAMP(9) {_LTZ}", "VARIANT",
)  # fmt: skip
_NESTED = (
    {"type": "ARRAY", "element": "INT"},
    {"type": "MAP", "key": "STRING", "value": "INT"},
    {"type": "MULTISET", "element": "STRING"},
    {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "INT"}]},
)


def type_doors() -> dict[Path, str]:
    """Return the page and the text it must have."""
    spark, dagster = "Spark (`write`, `upsert`, `INSERT`, Connect)", "Dagster's IO manager"
    ways_in = ", ".join((*WAYS_IN, *CHANGES_IN, spark, dagster))
    ways_out = ", ".join((*WAYS_OUT, "Spark (batch, changes, stream, Connect)", dagster, "Great Expectations"))
    doors = table(("way", "doors"), (("in", ways_in), ("out", ways_out)))
    types = table(("type", "Arrow", "DuckDB", "Polars", "pandas", "Spark"), map(_row, (*_WORDS, *_NESTED)))
    but = table(("door", "what it does not have"), EXCEPTIONS)
    made = f"{doors}\n\n{types}\n\n{but}"
    text = PAGE.read_text(encoding="utf-8")
    return {
        PAGE: re.sub(r"(<!-- types -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{made}\n{m[2]}", text, flags=re.DOTALL)
    }


def _row(spec: object) -> list[str]:
    t = parse_type(spec)  # type: ignore[arg-type]
    empty = pa.table({"v": pa.array([], to_arrow(t))})
    frame = pl.DataFrame(empty)
    names = (
        str(t),
        str(to_arrow(t)),
        str(duckdb.connect().from_arrow(empty).types[0]),
        str(frame.schema["v"]),
        str(empty.to_pandas().dtypes["v"]),
        spark_schema([Field(0, "v", t)])["v"].dataType.simpleString(),
    )
    return [f"`{n}`" for n in names]
