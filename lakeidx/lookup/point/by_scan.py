"""Rows of many keys: where a table is asked for one row in a few hundred, reading its key columns takes less than point lookups.

Partitions and key ranges that hold none of the keys are not opened; of the others only the columns that are asked for are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.read_data_file import RowChoice
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.predicate import TRUE, Predicate, and_, between, col
from lakeidx.table.handle import TableHandle
from lakeidx.table.newest import on_newest
from lakeidx.table.scan.table_scan import TableScan, scan_committed
from lakeidx.types import INT_ROOTS, Root

#: Rows of the files for each key up to which they are scanned: below, 600,000 keys of 6,000,000 rows took 0.5 s for 2.9 s.
_ROWS_PER_KEY = 200
#: Distinct values of a partition column that are named one by one.
_NAMED_VALUES = 1000
#: Types whose order is that of the files' key ranges, for every value.
_RANGED = (*INT_ROOTS, Root.DATE, Root.VARCHAR)


def scan_keys(table: TableHandle, keys: pa.Table, choice: RowChoice, columns: Sequence[str]) -> pa.Table | None:
    """Return the rows of some keys, as the next compaction leaves them; None where looking the keys up takes less.

    keys      the primary key's columns in their own types, without nulls, each once
    choice    chooses rows of the keys, and maybe some others
    columns   to give back
    """
    schema = table.schema
    names = [n for n in schema.field_names if n in {*columns, *schema.primary_keys}]

    def read() -> pa.Table | None:
        scan = scan_committed(table, where=_around(schema, keys), columns=names)
        if keys.num_rows * _ROWS_PER_KEY < sum(f.row_count for b in scan.plan.buckets for f in b.files()):
            return None
        # The condition has chosen the files; of their rows the keys themselves choose.
        scan = TableScan(table.metadata, replace(scan.plan, predicate=TRUE), columns=names)
        found = list(scan.batches(choice=choice))
        return (pa.concat_tables(found) if found else scan.arrow_schema.empty_table()).select(list(columns))

    return on_newest(table.metadata, lambda _: read())


def _around(schema: TableSchema, keys: pa.Table) -> Predicate:
    """Return a condition that holds for all of the keys: their partitions, and the range of each column."""
    return and_(_each(schema, keys))


def _each(schema: TableSchema, keys: pa.Table) -> Iterator[Predicate]:
    for name in schema.primary_keys if keys.num_rows else ():
        values = keys.column(name)
        named = values.unique() if name in schema.partition_keys else None
        if schema.field(name).type.root not in _RANGED:
            continue
        if named is not None and len(named) <= _NAMED_VALUES:
            yield col(name).is_in(named.to_pylist())
        else:
            ends = pc.min_max(values).as_py()
            yield between(name, ends["min"], ends["max"])
