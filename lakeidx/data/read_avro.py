"""Avro data files (option `file.format` = ``avro``). lakeidx does not write them.

A MAP whose key is not a string is an array of (key, value) records; DECIMAL is big-endian bytes; TIME is int milliseconds;
TIMESTAMP p <= 3 is long milliseconds, p <= 6 long microseconds; higher precisions do not exist in Avro files.

Avro is row by row: this reader is for small files and for tables that other programs keep in Avro.

source   org.apache.paimon.format.avro.AvroSchemaConverter, FieldReaderFactory; release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakeidx.codec.containers.avro import decode_container
from lakeidx.codec.values import arrow_int_to_timestamp, decimal_of, internal_to_arrow, map_types
from lakeidx.data.positions import ReadCounters, RowFilter
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from lakeidx.predicate import Predicate
from lakeidx.storage.base import ObjectStore
from lakeidx.types import TIMESTAMP_ROOTS, DataType, Field, Root

_SYSTEM_TYPES = {
    SEQUENCE_NUMBER: DataType(Root.BIGINT, nullable=False),
    VALUE_KIND: DataType(Root.TINYINT, nullable=False),
}


class AvroSource:
    """An Avro data file, read whole.

    schema   what the file was written with
    errors   NotFoundError; CorruptFileError
    """

    def __init__(self, store: ObjectStore, path: str, schema: TableSchema) -> None:
        self.path = path
        self._records = decode_container(store.get(path), path)
        self._types = {**_SYSTEM_TYPES, **{f.name: f.type for f in schema.fields}}
        present = list(self._records[0]) if self._records else list(self._types)
        self.schema = pa.schema([pa.field(name, pa.null()) for name in present])

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return len(self._records)

    def batches(
        self,
        names: Sequence[str],
        *,
        row_filter: RowFilter,
        predicate: Predicate | None,
        fields: Sequence[Field],
        batch_rows: int,
        counters: ReadCounters,
    ) -> Iterator[tuple[int, pa.Table]]:
        """Read batches as `ParquetSource.batches` does, columns in their final types; there are no statistics to prune by."""
        counters.rows_read += self.rows
        for first in range(0, self.rows, batch_rows):
            records = self._records[first : first + batch_rows]
            if not row_filter.keeps_any(first, len(records)):
                continue
            read = list(names) or self.schema.names[:1]
            columns = [self._column([r.get(name) for r in records], self._types[name], name) for name in read]
            yield first, pa.Table.from_arrays(columns, names=read).select(list(names))

    def _column(self, raw: list[Any], t: DataType, name: str) -> pa.Array:
        convert = _converter(t)
        try:
            return internal_to_arrow([convert(v) for v in raw], t)
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, InvalidInputError) as e:
            raise CorruptFileError(f"column {name!r} does not hold {t}: {e}", path=self.path) from e


def _converter(t: DataType) -> Callable[[Any], Any]:
    """Return the function that turns a decoded Avro value into an internal value; None stays None."""
    inner = _value_converter(t)
    return lambda v: None if v is None else inner(v)


def _value_converter(t: DataType) -> Callable[[Any], Any]:
    if t.root is Root.DECIMAL:
        return lambda v: decimal_of(int.from_bytes(v, "big", signed=True), t)
    if t.root in TIMESTAMP_ROOTS:
        unit = 3 if t.precision <= 3 else 6
        return lambda v: arrow_int_to_timestamp(v, unit)
    if t.root is Root.ARRAY:
        assert t.element is not None
        element = _converter(t.element)
        return lambda v: [element(e) for e in v]
    if t.root in (Root.MAP, Root.MULTISET):
        key, item = (_converter(x) for x in map_types(t))
        return lambda v: [(key(k), item(e)) for k, e in _map_items(v)]
    if t.root is Root.ROW:
        fields = [(f.name, _converter(f.type)) for f in t.fields]
        return lambda v: tuple(convert(v[name]) for name, convert in fields)
    if t.root is Root.VARIANT:
        return lambda v: (v["value"], v["metadata"])
    return lambda v: v


def _map_items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else [(r["key"], r["value"]) for r in value]
