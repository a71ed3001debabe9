"""Data files read as tables of the present schema: streaming, by column, by position.

source   org.apache.paimon.io.KeyValueFileReaderFactory, RawFileSplitRead, org.apache.paimon.schema.SchemaEvolutionUtil;
         release 1.4.2

Columns of a data file read as columns of another version of the schema.

A column is the same when its field id is: it is found in the file under the name it had when the file was written, cast when
its type changed since, and null when the file has none. Fields of a ROW, also inside ARRAY and MAP, are matched the same way.

source   org.apache.paimon.schema.SchemaEvolutionUtil, org.apache.paimon.casting.CastedRow; release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.data.cast import cast_to_type
from lakeidx.data.parquet.chunks import damage_of
from lakeidx.data.parquet.row_groups import ParquetSource, RowTest
from lakeidx.data.parquet.schema import SYSTEM_COLUMNS
from lakeidx.data.positions import Positions, ReadCounters, RowFilter
from lakeidx.data.read_avro import AvroSource
from lakeidx.data.read_orc import OrcSource
from lakeidx.data.row_kinds import is_retract
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from lakeidx.predicate import BoundPredicate, Constant, Predicate, evaluate
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import name_of
from lakeidx.types import DataType, Field, Root, to_arrow


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Source of one wanted column in a file: `source`, or all null when that is None."""

    field: Field
    source: Field | None


def plan_file_columns(file_fields: Sequence[Field], wanted: Sequence[Field]) -> list[ColumnPlan]:
    """Match wanted columns to a file's by field id."""
    by_id = {f.id: f for f in file_fields}
    return [ColumnPlan(f, by_id.get(f.id)) for f in wanted]


def evolve_column(plan: ColumnPlan, column: pa.ChunkedArray | None, rows: int) -> pa.ChunkedArray:
    """Make the wanted column from the file's.

    column   what the file has under ``plan.source``; None when it has none
    rows     length of the result
    returns  a column of ``to_arrow(plan.field.type)``
    errors   UnsupportedError when Paimon has no such cast; InvalidInputError when a value does not cast
    """
    target = to_arrow(plan.field.type)
    if column is None or plan.source is None:
        return pa.chunked_array([pa.nulls(rows, target)], target)
    return evolve_values(column, plan.source.type, plan.field.type, plan.field.name)


def evolve_values(column: pa.ChunkedArray, old: DataType, new: DataType, name: str) -> pa.ChunkedArray:
    """Make a column of one type from that of another, as `evolve_column`."""
    target = to_arrow(new)
    if column.type == target and (old == new or old.with_nullable(True) == new.with_nullable(True)):
        return column
    if not new.is_nested and new.root is not Root.VARIANT:
        if column.type != to_arrow(old):
            column = column.cast(to_arrow(old))
        return cast_to_type(column, old, new, name=name)
    if old.root is not new.root:
        raise UnsupportedError(f"column {name!r}: Paimon has no cast from {old} to {new}")
    from lakeidx.data.nested_columns import rebuild_nested

    return pa.chunked_array([rebuild_nested(chunk, old, new, name) for chunk in column.chunks], target)


class RowChoice(NamedTuple):
    """Rows that a caller chooses.

    columns  of the schema to read with, that it looks at
    chosen   rows of these columns -> bool[n] without nulls; None: all
    """

    columns: Sequence[str]
    chosen: Callable[[pa.Table], npt.NDArray[np.bool_]] | None


DataFileSource = ParquetSource | OrcSource | AvroSource
BATCH_ROWS = 65_536
_SYSTEM_TYPES = {SEQUENCE_NUMBER: pa.int64(), VALUE_KIND: pa.int8()}


def read_data_file(
    store: ObjectStore,
    path: str,
    file: DataFileMeta | None,
    file_schema: TableSchema,
    read_schema: TableSchema,
    columns: Sequence[str] | None = None,
    *,
    predicate: BoundPredicate | None = None,
    deletion_vector: Positions | None = None,
    selection: Positions | None = None,
    batch_rows: int = BATCH_ROWS,
    dictionary_columns: Sequence[str] = (),
    filter_rows: bool = False,
    choice: RowChoice | None = None,
    system_columns: Sequence[str] = SYSTEM_COLUMNS,
    counters: ReadCounters | None = None,
) -> Iterator[pa.Table]:
    """Read the rows of one data file, in file order.

    file                what the manifest says of it, to check size and row count; None when not known
    file_schema         the schema of the file's `schema_id`
    read_schema         the schema to read with; columns are matched by field id, cast, or null when the file has none
    columns             columns of `read_schema` wanted (given in schema order); default all
    predicate           on `read_schema`; leaves out row groups that surely hold no selected row, and nothing else: the
                        caller still filters, and passes only what may be tested before merging
    deletion_vector     positions to leave out
    selection           positions to keep (rows a file index selected); None keeps all
    dictionary_columns  string columns of `read_schema` to give as ``dictionary<int32, string>`` instead of plain strings
    filter_rows         leave out rows that `predicate` does not select as well; of Parquet files its columns are read
                        first, and the others only of row groups with selected rows
    choice              leave out rows that it does not choose, in the same way; then nothing else filters rows
    system_columns      of a primary-key table, which of ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND`` are wanted
    returns             primary-key table: KV tables (system columns, columns); append table: columns. At
                        most `batch_rows` rows each, none empty
    errors              NotFoundError; CorruptFileError for damaged bytes, another number of rows than `file` says or a missing
                        column; UnsupportedError for a format or cast that lakeidx does not have; each names the file
    memory              the compressed columns of a row group and a decoded batch; of a remote file also what is fetched ahead
                        (see `lakeidx.storage.range_file`); when rows are filtered also the selected
                        rows of the filter's columns in that row group
    """
    counters = counters if counters is not None else ReadCounters()
    plans = plan_file_columns(file_schema.fields, _wanted(read_schema, columns))
    pruning = predicate.of_files(file_schema.id, file_schema.fields)[0] if predicate is not None else None
    counters.files += 1
    if isinstance(pruning, Constant):
        if not pruning.value:
            return
        pruning = None
    choice = choice or (_choice_of(predicate) if filter_rows and predicate is not None else RowChoice((), None))
    encoded = [p.source.name for p in plans if p.source is not None and p.field.name in dictionary_columns]
    source = open_data_file(store, path, file.file_size if file is not None else None, file_schema, encoded)
    _check_rows(source, file, path)
    yield from _FileScan(
        source=source, path=path, file=file, fields=file_schema.fields, plans=plans,
        tests=plan_file_columns(file_schema.fields, [f for f in read_schema.fields if f.name in choice.columns]),
        system=tuple(system_columns) if read_schema.primary_keys else (), encoded=dictionary_columns,
        chosen=choice.chosen,
        pruning=pruning, row_filter=RowFilter(deletion_vector, selection), batch_rows=batch_rows, counters=counters,
    ).tables()  # fmt: skip


def count_deletes(store: ObjectStore, path: str, file: DataFileMeta, schema: TableSchema) -> int:
    """Count the rows of kind -U or -D in a file, whatever its manifest entry says; only the column of row kinds is read.

    schema   of a table with a primary key, the one the file was written with
    errors   as `read_data_file`
    """
    batches = read_data_file(store, path, file, schema, schema, (), system_columns=(VALUE_KIND,))
    return sum(int(np.count_nonzero(is_retract(b.column(VALUE_KIND).to_numpy()))) for b in batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileScan:
    """One open data file on its way to tables of the present schema.

    fields      of the schema it was written with
    plans       columns to give
    tests       columns that rows are filtered by; none when they are not to be filtered
    system      system columns to give
    encoded     columns to give as dictionaries
    chosen      which rows of `tests` are wanted
    pruning     a predicate in terms of `fields`; None prunes no row group
    """

    source: DataFileSource
    path: str
    file: DataFileMeta | None
    fields: Sequence[Field]
    plans: Sequence[ColumnPlan]
    tests: Sequence[ColumnPlan]
    system: tuple[str, ...]
    encoded: Sequence[str]
    chosen: Callable[[pa.Table], npt.NDArray[np.bool_]] | None
    pruning: Predicate | None
    row_filter: RowFilter
    batch_rows: int
    counters: ReadCounters

    def tables(self) -> Iterator[pa.Table]:
        """Read the file, what rows are filtered by first where the format allows it."""
        names = self._present(self.tests)
        # Rows that are chosen by position need no column to be found.
        if isinstance(self.source, ParquetSource) and (names or (self.row_filter.selects and not self.tests)):
            return self._tested_first(self.source, names)
        return self._tested_after()

    def _tested_first(self, source: ParquetSource, names: Sequence[str]) -> Iterator[pa.Table]:
        present = self._present(self.plans, system=self.system)
        for _, raw in source.batches(
            present, row_filter=self.row_filter, predicate=self.pruning,
            fields=self.fields, batch_rows=self.batch_rows, counters=self.counters,
            row_test=RowTest(frozenset(names), self._selected),
        ):  # fmt: skip
            yield _evolved(raw, self.plans, system=self.system, path=self.path, encoded=self.encoded)

    def _selected(self, first: int, raw: pa.Table) -> npt.NDArray[np.bool_]:
        """Return bool[n], which rows of a batch of the tested columns are wanted; `first` is the position of its first row."""
        wanted = None if self.row_filter.keeps_all else self.row_filter.mask(first, raw.num_rows)
        given = raw.num_rows if wanted is None else int(np.count_nonzero(wanted))
        self.counters.rows_given += given
        if not given:
            return np.zeros(raw.num_rows, np.bool_)
        if not self.tests:
            return np.ones(raw.num_rows, np.bool_) if wanted is None else wanted
        assert self.chosen is not None
        coded = [f.name for f in raw.schema if pa.types.is_dictionary(f.type)]
        as_read = [p.field.name for p in self.tests if p.source is not None and p.source.name in coded]
        rows = _evolved(raw, self.tests, system=(), path=self.path, encoded=as_read)
        mask = self.chosen(rows)
        found: npt.NDArray[np.bool_] = mask if wanted is None else mask & wanted
        return found

    def _tested_after(self) -> Iterator[pa.Table]:
        # What rows are filtered by is read with the other columns, and dropped after it.
        extra = [p for p in self.tests if p.field not in [w.field for w in self.plans]]
        plans = [*self.plans, *extra]
        for first, raw in self.source.batches(
            self._present(plans, system=self.system), row_filter=self.row_filter, predicate=self.pruning,
            fields=self.fields, batch_rows=self.batch_rows, counters=self.counters,
        ):  # fmt: skip
            table = _kept(self.row_filter, first, raw)
            if not table.num_rows:
                continue
            self.counters.rows_given += table.num_rows
            rows = _evolved(table, plans, system=self.system, path=self.path, encoded=self.encoded)
            if self.chosen is not None:
                rows = rows.filter(pa.array(self.chosen(rows))).select(
                    rows.column_names[: rows.num_columns - len(extra)]
                )
            if rows.num_rows:
                yield rows

    def _present(self, plans: Sequence[ColumnPlan], *, system: Sequence[str] = ()) -> list[str]:
        """Choose the columns to read from the file, each once; CorruptFileError when one that was written is missing."""
        names = dict.fromkeys([*system, *(p.source.name for p in plans if p.source is not None)])
        # Files of data evolution hold some of the schema's columns; all others hold all.
        written = set(names if self.file is None or self.file.write_cols is None else self.file.write_cols)
        missing = [n for n in names if n not in self.source.schema.names]
        if any(n in written for n in missing):
            raise CorruptFileError(f"the file has no column {missing[0]!r}", path=self.path)
        return [n for n in names if n not in missing]


def _wanted(schema: TableSchema, columns: Sequence[str] | None) -> list[Field]:
    names = set(schema.field_names if columns is None else columns)
    found = [f for f in schema.fields if f.name in names]
    if len(found) < len(names):
        # Raises, and names what is missing.
        schema.types_of(sorted(names))
    return found


def _check_rows(source: DataFileSource, file: DataFileMeta | None, path: str) -> None:
    if file is not None and source.rows != file.row_count:
        raise CorruptFileError(f"expected {file.row_count} rows, found {source.rows}", path=path)


def _kept(row_filter: RowFilter, first: int, raw: pa.Table) -> pa.Table:
    mask = None if row_filter.keeps_all else row_filter.mask(first, raw.num_rows)
    return raw if mask is None else raw.filter(pa.array(mask))


def _choice_of(predicate: BoundPredicate) -> RowChoice:
    return RowChoice(predicate.columns, lambda rows: evaluate(predicate.predicate, rows).to_numpy())


def open_data_file(
    store: ObjectStore,
    path: str,
    size: int | None,
    schema: TableSchema,
    encoded: Sequence[str] = (),
) -> DataFileSource:
    """Open a data file by its ending.

    size      bytes, when known
    schema    the one the file was written with
    encoded   text columns to give as dictionaries
    errors    NotFoundError, CorruptFileError; UnsupportedError for another format
    """
    extension = name_of(path).rpartition(".")[2].lower()
    if extension == "parquet":
        return ParquetSource(store, path, size=size, dictionary_columns=encoded)
    if extension == "orc":
        return OrcSource(store, path, size=size)
    if extension == "avro":
        return AvroSource(store, path, schema)
    raise UnsupportedError(f"lakeidx reads parquet, orc and avro data files, not {extension!r}", path=path)


def _evolved(
    table: pa.Table, plans: Sequence[ColumnPlan], *, system: Sequence[str], path: str, encoded: Sequence[str]
) -> pa.Table:
    if not system and not plans:
        # A table without columns keeps its number of rows only when it is made by leaving columns out.
        return table.select([])
    names, columns = [], []
    with damage_of(path):
        for name in system:
            column, t = table.column(name), _SYSTEM_TYPES[name]
            names.append(name)
            columns.append(column if column.type == t else column.cast(t))
        for plan in plans:
            names.append(plan.field.name)
            columns.append(_column(table, plan, as_dictionary=plan.field.name in encoded))
    return pa.Table.from_arrays(columns, schema=_schema(names, columns, [p.field for p in plans], len(system)))


def _column(table: pa.Table, plan: ColumnPlan, *, as_dictionary: bool) -> pa.ChunkedArray:
    source = plan.source
    at = table.schema.get_field_index(source.name) if source is not None else -1
    raw = table.column(at) if at >= 0 else None
    if raw is not None and pa.types.is_dictionary(raw.type):
        assert source is not None
        if as_dictionary and source.type.with_nullable(True) == plan.field.type.with_nullable(True):
            return raw
        # `take` checks the indices, which damaged pages may have beyond the dictionary.
        raw = pa.chunked_array([c.dictionary.take(c.indices) for c in raw.chunks], raw.type.value_type)
    column = evolve_column(plan, raw, table.num_rows)
    return column.dictionary_encode() if as_dictionary else column


def _schema(names: list[str], columns: list[pa.ChunkedArray], fields: list[Field], system: int) -> pa.Schema:
    nullable = [False] * system + [f.type.nullable for f in fields]
    return pa.schema([pa.field(n, c.type, null) for n, c, null in zip(names, columns, nullable, strict=True)])
