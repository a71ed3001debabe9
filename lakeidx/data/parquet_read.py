"""Data files read as tables of the present schema: streaming, by column, by position.

source   org.apache.paimon.io.KeyValueFileReaderFactory, RawFileSplitRead, org.apache.paimon.schema.SchemaEvolutionUtil;
         release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.data.evolve import ColumnPlan, evolve_column, plan_columns
from lakeidx.data.positions import Positions, RowFilter
from lakeidx.data.read_avro import AvroSource
from lakeidx.data.read_orc import OrcSource
from lakeidx.data.read_parquet import ParquetSource, ReadCounters, RowTest, damage_of
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from lakeidx.predicate import Constant, Predicate, devolve, evaluate, filter_table
from lakeidx.predicate import columns as columns_of
from lakeidx.storage.base import ObjectStore, name_of
from lakeidx.types import Field

BATCH_ROWS = 65_536
_SYSTEM = ((SEQUENCE_NUMBER, pa.int64()), (VALUE_KIND, pa.int8()))


def read_data_file(
    store: ObjectStore,
    path: str,
    file: DataFileMeta | None,
    file_schema: TableSchema,
    read_schema: TableSchema,
    columns: Sequence[str] | None = None,
    *,
    predicate: Predicate | None = None,
    deletion_vector: Positions | None = None,
    selection: Positions | None = None,
    batch_rows: int = BATCH_ROWS,
    dictionary_columns: Sequence[str] = (),
    filter_rows: bool = False,
    system_columns: bool = True,
    counters: ReadCounters | None = None,
) -> Iterator[pa.Table]:
    """Rows of one data file, in file order.

    file                what the manifest says of it, to check size and row count; None when not known
    file_schema         the schema of the file's `schema_id`
    read_schema         the schema to read with; columns are matched by field id, cast, or null when the file has none
    columns             columns of `read_schema` wanted (given in schema order); default all
    predicate           bound to `read_schema`; leaves out row groups that surely hold no selected row, and nothing else: the
                        caller still filters, and passes only what may be tested before merging
    deletion_vector     positions to leave out
    selection           positions to keep (rows a file index selected); None keeps all
    dictionary_columns  string columns of `read_schema` to give as ``dictionary<int32, string>`` instead of plain strings
    filter_rows         leave out rows that `predicate` does not select as well; of Parquet files its columns are read
                        first, and the others only of row groups with selected rows
    system_columns      False: without ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``, for files without deletes that nobody merges
    returns             primary-key table: KV tables (``_SEQUENCE_NUMBER``, ``_VALUE_KIND``, columns); append table: columns. At
                        most `batch_rows` rows each, none empty
    errors              NotFoundError; CorruptFileError for damaged bytes, another number of rows than `file` says or a missing
                        column; UnsupportedError for a format or cast that lakeidx does not have; each names the file
    memory              the compressed columns of a row group and a decoded batch; when rows are filtered also the selected
                        rows of the filter's columns in that row group
    """
    counters = counters if counters is not None else ReadCounters()
    keyed = bool(read_schema.primary_keys) and system_columns
    wanted_names = set(read_schema.field_names if columns is None else columns)
    wanted = [f for f in read_schema.fields if f.name in wanted_names]
    if len(wanted) < len(wanted_names):
        read_schema.types_of(sorted(wanted_names))
    file_predicate = devolve(predicate, read_schema.fields, file_schema.fields) if predicate is not None else None
    counters.files += 1
    if isinstance(file_predicate, Constant):
        if not file_predicate.value:
            return
        file_predicate = None
    tested = columns_of(predicate) if filter_rows and predicate is not None else ()
    test_plans = plan_columns(file_schema.fields, [f for f in read_schema.fields if f.name in tested])
    plans = plan_columns(file_schema.fields, wanted)
    encoded = [p.source.name for p in plans if p.source is not None and p.field.name in dictionary_columns]
    source = _open(store, path, file.file_size if file is not None else None, file_schema, encoded)
    if file is not None and source.rows != file.row_count:
        raise CorruptFileError(f"expected {file.row_count} rows, found {source.rows}", path=path)
    system = [n for n, _ in _SYSTEM] if keyed else []
    test_names = _present(source, test_plans, file, path=path)
    tests_first = isinstance(source, ParquetSource) and bool(test_names)
    # Where the filter cannot go first, its columns are read with the others, and dropped after it.
    extra = [] if tests_first else [p for p in test_plans if p.field.name not in wanted_names]
    names = _present(source, [*plans, *extra], file, path=path, also=system)
    row_filter = RowFilter(deletion_vector, selection)
    if tests_first:
        assert isinstance(source, ParquetSource)
        assert predicate is not None

        def selected(first: int, raw: pa.Table) -> npt.NDArray[np.bool_]:
            wanted_rows = None if row_filter.keeps_all else row_filter.mask(first, raw.num_rows)
            given = raw.num_rows if wanted_rows is None else int(np.count_nonzero(wanted_rows))
            counters.rows_given += given
            if not given:
                return np.zeros(raw.num_rows, np.bool_)
            coded = [f.name for f in raw.schema if pa.types.is_dictionary(f.type)]
            as_read = [p.field.name for p in test_plans if p.source is not None and p.source.name in coded]
            mask = evaluate(predicate, _evolved(raw, test_plans, keyed=False, path=path, encoded=as_read)).to_numpy()
            return mask if wanted_rows is None else mask & wanted_rows

        for _, raw in source.batches(
            names, row_filter=row_filter, predicate=file_predicate, fields=file_schema.fields, batch_rows=batch_rows,
            counters=counters, row_test=RowTest(frozenset(test_names), selected),
        ):  # fmt: skip
            yield _evolved(raw, plans, keyed=keyed, path=path, encoded=dictionary_columns)
        return
    for first, raw in source.batches(
        names, row_filter=row_filter, predicate=file_predicate, fields=file_schema.fields, batch_rows=batch_rows,
        counters=counters,
    ):  # fmt: skip
        mask = None if row_filter.keeps_all else row_filter.mask(first, raw.num_rows)
        table = raw if mask is None else raw.filter(pa.array(mask))
        if not table.num_rows:
            continue
        counters.rows_given += table.num_rows
        rows = _evolved(table, [*plans, *extra], keyed=keyed, path=path, encoded=dictionary_columns)
        if test_plans:
            assert predicate is not None
            rows = filter_table(predicate, rows).select(rows.column_names[: rows.num_columns - len(extra)])
        if rows.num_rows:
            yield rows


def _present(
    source: ParquetSource | OrcSource | AvroSource,
    plans: Sequence[ColumnPlan],
    file: DataFileMeta | None,
    *,
    path: str,
    also: Sequence[str] = (),
) -> list[str]:
    """The columns to take from a file, each once; CorruptFileError when one that was written is not there."""
    names = dict.fromkeys([*also, *(p.source.name for p in plans if p.source is not None)])
    # Files of data evolution hold some of the schema's columns; all others hold all.
    written = set(names if file is None or file.write_cols is None else file.write_cols)
    missing = [n for n in names if n not in source.schema.names]
    if any(n in written for n in missing):
        raise CorruptFileError(f"the file has no column {missing[0]!r}", path=path)
    return [n for n in names if n not in missing]


def _open(
    store: ObjectStore, path: str, size: int | None, schema: TableSchema, encoded: Sequence[str]
) -> ParquetSource | OrcSource | AvroSource:
    extension = name_of(path).rpartition(".")[2].lower()
    if extension == "parquet":
        return ParquetSource(store, path, size=size, dictionary_columns=encoded)
    if extension == "orc":
        return OrcSource(store, path, size=size)
    if extension == "avro":
        return AvroSource(store, path, schema)
    raise UnsupportedError(f"lakeidx reads parquet, orc and avro data files, not {extension!r}", path=path)


def _evolved(
    table: pa.Table, plans: Sequence[ColumnPlan], *, keyed: bool, path: str, encoded: Sequence[str]
) -> pa.Table:
    if not keyed and not plans:
        # A table without columns keeps its number of rows only when it is made by leaving columns out.
        return table.select([])
    names, columns = [], []
    with damage_of(path):
        if keyed:
            for name, t in _SYSTEM:
                column = table.column(name)
                names.append(name)
                columns.append(column if column.type == t else column.cast(t))
        for plan in plans:
            names.append(plan.field.name)
            columns.append(_column(table, plan, as_dictionary=plan.field.name in encoded))
    return pa.Table.from_arrays(columns, schema=_schema(names, columns, [p.field for p in plans], keyed=keyed))


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


def _schema(names: list[str], columns: list[pa.ChunkedArray], fields: list[Field], *, keyed: bool) -> pa.Schema:
    nullable = ([False, False] if keyed else []) + [f.type.nullable for f in fields]
    return pa.schema([pa.field(n, c.type, null) for n, c, null in zip(names, columns, nullable, strict=True)])
