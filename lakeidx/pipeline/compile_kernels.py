"""Compiles the kernels of everything a table may ask for, ahead of the first real batch: ``lakeidx warm-up``.

Numba compiles a kernel when it is first called with some types and keeps the code beside the source. On a new machine the first
batch would pay for that; the installation does it instead, by running small tables of many kinds through all stages.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakeidx.codec.warm_up import warm_up as compile_codecs
from lakeidx.lookup.warm_up import warm_up as compile_lookups
from lakeidx.pipeline.compact import run_compaction
from lakeidx.pipeline.lookup_store import run_lookup_store
from lakeidx.pipeline.runner import LocalRunner
from lakeidx.pipeline.upsert import make_context, upsert_table
from lakeidx.table.handle import TableHandle

_ROWS = 40
#: Column types and a value each, made different row by row.
_VALUES: Mapping[str, Callable[[int], Any]] = {
    "INT": lambda i: i,
    "BIGINT": lambda i: i << 33,
    "DOUBLE": float,
    "FLOAT": float,
    "BOOLEAN": lambda i: i % 2 == 0,
    "DECIMAL(12, 2)": lambda i: Decimal(i).scaleb(-2),
    "DECIMAL(30, 4)": lambda i: Decimal(i << 70).scaleb(-4),
    "STRING": lambda i: f"text {i % 7}",
    "BYTES": lambda i: bytes([i]),
    "DATE": lambda i: date(2013, 1, 1 + i % 28),
    "TIMESTAMP(3)": lambda i: datetime(2013, 1, 1, i % 24),
    "TIMESTAMP(6)": lambda i: datetime(2013, 1, 1, i % 24, 0, 0, i),
}


@dataclass(frozen=True)
class _Kind:
    """A kind of table: what its kernels are for, key columns, options."""

    label: str
    keys: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)
    partitioned: bool = True


def _kinds() -> Iterator[_Kind]:
    columns = {t: _name(t) for t in _VALUES}
    numbers = [columns[t] for t in ("INT", "BIGINT", "DOUBLE", "DECIMAL(12, 2)", "DECIMAL(30, 4)")]
    indexed = ", ".join(columns[t] for t in ("INT", "BIGINT", "STRING", "DATE"))
    indexes = {f"file-index.{t}.columns": indexed for t in ("bloom-filter", "bitmap")}
    indexes |= {f"file-index.{t}.columns": columns["BIGINT"] for t in ("bsi", "range-bitmap")}
    yield _Kind("file indexes", [columns["BIGINT"]], indexes)
    yield _Kind("fixed buckets", [columns["STRING"], columns["INT"]], {"bucket": "2"})
    yield _Kind("many keys", list(columns.values())[:12:3])
    yield _Kind("hash lookup store", [columns["INT"]], {"lookup.store.type": "hash"}, partitioned=False)
    yield _Kind("first row", [columns["INT"]], {"merge-engine": "first-row"})
    yield _Kind("partial update", [columns["INT"]], {"merge-engine": "partial-update",
                f"fields.{columns['BIGINT']}.sequence-group": columns["DOUBLE"]})  # fmt: skip
    for function in ("sum", "max", "last_value", "product"):
        yield _Kind(f"aggregation {function}", [columns["STRING"]], {"merge-engine": "aggregation",
                    **{f"fields.{n}.aggregate-function": function for n in numbers}})  # fmt: skip
    for index in ("bloom", "simple", "inmemory"):
        yield _Kind(f"index {index}", [columns["BIGINT"]], {"index.type": index})
    yield _Kind("deletion vectors", [columns["INT"]], {"deletion-vectors.enabled": "true"})


def _name(type_text: str) -> str:
    return "c_" + "".join(c for c in type_text.lower() if c.isalnum())


def compile_kernels(on_step: Callable[[str], None] = lambda label: None) -> int:
    """Compile, or load from disk, what tables of all kinds run; gives the number of steps.

    on_step   called with the name of the kind that comes next
    """
    on_step("codecs")
    compile_codecs()
    on_step("lookup stores")
    compile_lookups()
    count = 2
    with tempfile.TemporaryDirectory(prefix="lakeidx-warm-up-") as folder:
        for count, kind in zip(itertools.count(3), _kinds(), strict=False):
            on_step(kind.label)
            _exercise(kind, f"{folder}/wh/warm.db/t{count}")
    return count


def _exercise(kind: _Kind, uri: str) -> None:
    fields = [{"name": _name(t), "type": t + (" NOT NULL" if _name(t) in kind.keys else "")} for t in _VALUES]
    if kind.partitioned:
        fields.insert(0, {"name": "part", "type": "INT NOT NULL"})
    partition_keys = ["part"] if kind.partitioned else []
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "16", "num-sorted-run.compaction-trigger": "2"}
    spec = {"fields": fields, "primaryKeys": [*partition_keys, *kind.keys], "partitionKeys": partition_keys,
            "options": {**options, **kind.options}}  # fmt: skip
    table = TableHandle.create(uri, spec)
    runner = LocalRunner(1)
    for batch in range(3):
        upsert_table(make_context(table.metadata, f"b{batch}", runner=runner), _rows(table, batch * 10))
    TableHandle.open(uri).scan().to_arrow()
    TableHandle.open(uri).scan(where=f"{_name('BIGINT')} = 8589934592").to_arrow()
    run_lookup_store(table.metadata, runner)
    run_compaction(table.metadata, runner, full=True)
    TableHandle.open(uri).scan().to_arrow()


def _rows(table: TableHandle, first: int) -> pa.Table:
    columns = {}
    for f in table.schema.fields:
        make = next((v for t, v in _VALUES.items() if _name(t) == f.name), lambda i: i % 2)
        columns[f.name] = pa.array(
            [make(i) for i in range(first, first + _ROWS)], table.schema.arrow_schema.field(f.name).type
        )
    return pa.table(columns, schema=table.schema.arrow_schema)
