"""Compile the kernels of everything a table may need, ahead of the first real batch: ``lakeidx warm-up``.

Numba compiles a kernel when it is first called with some types and keeps the code beside the source. On a new machine the first
batch would pay for that; the installation does it instead, by running small tables of many kinds through all stages.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeidx.batch.upsert import make_context, upsert_table
from lakeidx.codec.bucket import fixed_buckets
from lakeidx.codec.containers.compress import BlockCodec
from lakeidx.codec.hashes.murmur import hash_bytes_many
from lakeidx.codec.order.key import argsort_keys, is_sorted, normalized_keys, run_starts, search_sorted
from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
from lakeidx.codec.rows.compacted_row_vec import decode_compacted_rows, encode_compacted_rows
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.store import LookupStoreOptions, StoreType
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.runner import LocalRunner
from lakeidx.types import DataType, Root, parse_type, to_arrow

_ROWS = 40
_KEY_TYPES = [
    DataType(Root.INT),
    DataType(Root.BIGINT),
    DataType(Root.VARCHAR, length=100),
    DataType(Root.DECIMAL, precision=38, scale=2),
    DataType(Root.TIMESTAMP, precision=6),
]
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


def warm_up(on_step: Callable[[str], None] = lambda label: None, *, only: Collection[str] | None = None) -> int:
    """Compile, or load from disk, the kernels that codecs, lookup stores and tables of all kinds run.

    on_step   called with the name of the step that comes next
    only      names of the steps to take, such as "codecs" or "lookup stores"; None for all
    returns   the number of steps taken
    cost      seconds when cached, minutes in a fresh install
    """
    count = 0
    with tempfile.TemporaryDirectory(prefix="lakeidx-warm-up-") as folder:
        for label, step in _steps(folder):
            if only is None or label in only:
                on_step(label)
                step()
                count += 1
    return count


def _steps(folder: str) -> Iterator[tuple[str, Callable[[], None]]]:
    yield "codecs", _compile_codecs
    yield "lookup stores", partial(_compile_lookup_stores, Path(folder))
    for number, kind in enumerate(_kinds()):
        yield kind.label, partial(_exercise, kind, f"{folder}/wh/warm.db/t{number}")


def _compile_codecs() -> None:
    rows = [[None, None, None, None, None], [2, 3, "some longer text", 4, 5], [1, 3, "some longer text", 4, 5]]
    columns = [pa.array(values, pa.int64() if t.root is not Root.VARCHAR else pa.string()).cast(to_arrow(t))
               for values, t in zip(zip(*rows, strict=True), _KEY_TYPES, strict=True)]  # fmt: skip
    encoded = encode_rows(columns, _KEY_TYPES)
    hash_bytes_many(encoded)
    hash_columns(columns, _KEY_TYPES)
    fixed_buckets([columns[2], columns[3]], [_KEY_TYPES[2], _KEY_TYPES[3]], 2, "hive")
    decode_compacted_rows(
        encode_compacted_rows(columns, _KEY_TYPES), _KEY_TYPES, [str(i) for i in range(len(_KEY_TYPES))]
    )
    argsort_keys(columns, _KEY_TYPES)
    is_sorted(columns, _KEY_TYPES)
    run_starts(columns, _KEY_TYPES)
    for count in (2, len(_KEY_TYPES)):
        keys = normalized_keys(columns[:count], _KEY_TYPES[:count])
        search_sorted(keys, keys)


def _compile_lookup_stores(folder: Path) -> None:
    order = KeyOrder.row_compacted([parse_type("STRING NOT NULL")])
    keys = RowBytes.from_list([b"\0\0" + bytes([len(text)]) + text for text in (b"a", b"b" * 20, b"c" * 100)])
    values = RowBytes.from_list([b"1", b"22" * 50, b""])
    for store_type in StoreType:
        for codec in (BlockCodec.NONE, BlockCodec.ZSTD):
            options = LookupStoreOptions(block_size=64, compression=codec)
            cache = BlockCache(0, working_bytes=0)
            factory = LookupStoreFactory(store_type, order=order, options=options, cache=cache)
            path = folder / f"{store_type}-{codec}"
            with factory.create_writer(path) as writer:
                writer.write(keys, values)
                file = writer.finish()
            for source in (file, path):
                with factory.open_reader(source) as reader:
                    reader.lookup(keys[0])
                    reader.lookup_many(keys)
                    for _ in reader.scan():
                        pass
                    reader.verify()
                    reader.lookup_many(keys)
                    reader.lookup(keys[1])


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
