"""lineitem of TPC-H, which several benchmarks keep in a table: made by tpchgen-cli (PyPI), once per scale."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

CACHE = Path(tempfile.gettempdir()) / "lakeidx-bench"
KEYS = ("l_orderkey", "l_linenumber")
#: Rows that are in memory at a time where a file is streamed.
BATCH_ROWS = 120_000


def lineitem(scale: float, cache: Path) -> Path:
    """Make lineitem as Parquet, once."""
    path = cache / f"sf{scale:g}" / "lineitem.parquet"
    if not path.exists():
        tool = shutil.which(
            "tpchgen-cli", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        )
        if tool is None:
            sys.exit("tpchgen-cli is not there: pip install tpchgen-cli, or give --lineitem FILE")
        command = [tool, "parquet", "-s", f"{scale:g}", "--tables=lineitem", f"--output-dir={path.parent}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def table_spec(schema: pa.Schema) -> dict[str, Any]:
    """Return the table of the issues: dynamic buckets of 500,000 keys."""

    def type_of(t: pa.DataType) -> str:
        if pa.types.is_decimal(t):
            return f"DECIMAL({t.precision}, {t.scale})"
        if pa.types.is_integer(t):
            return "BIGINT" if t.bit_width == 64 else "INT"
        return "DATE" if pa.types.is_date(t) else "STRING"

    return {
        "fields": [{"name": f.name, "type": f"{type_of(f.type)} NOT NULL"} for f in schema],
        "primaryKeys": list(KEYS),
        "partitionKeys": [],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "500000"},
    }


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with text for text views, everything NOT NULL."""
    return pa.schema([
        pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type, False) for f in schema
    ])  # fmt: skip


def plain(table: pa.Table) -> pa.Table:
    """Convert text views to text, everything NOT NULL."""
    return table.cast(plain_schema(table.schema))


def streamed(path: Path, rows: int | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """Read a file, or its first rows, or some of its columns, as `plain` batches: files of any size fit into memory."""
    file = pq.ParquetFile(path)
    names = list(file.schema_arrow.names if columns is None else columns)
    schema = plain_schema(pa.schema([file.schema_arrow.field(name) for name in names]))

    def batches() -> Iterator[pa.RecordBatch]:
        left = file.metadata.num_rows if rows is None else rows
        for batch in file.iter_batches(BATCH_ROWS, columns=names):
            if left <= 0:
                return
            yield batch.slice(0, left).cast(schema)
            left -= batch.num_rows

    return pa.RecordBatchReader.from_batches(schema, batches())


def copy_table(uri: str, folder: Path) -> str:
    """Copy a table into a folder; return its place there."""
    place = folder / "b.db" / "lineitem"
    shutil.copytree(uri, place)
    return str(place)
