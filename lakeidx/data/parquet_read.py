"""Data files read as tables of the present schema: streaming, by column, by position.

source   org.apache.paimon.io.KeyValueFileReaderFactory, RawFileSplitRead, org.apache.paimon.schema.SchemaEvolutionUtil;
         release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakeidx.data.evolve import ColumnPlan, evolve_column, plan_columns
from lakeidx.data.positions import Positions, RowFilter
from lakeidx.data.read_avro import AvroSource
from lakeidx.data.read_orc import OrcSource
from lakeidx.data.read_parquet import ParquetSource, ReadCounters, damage_of
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from lakeidx.predicate import Constant, Predicate, devolve
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
    returns             primary-key table: KV tables (``_SEQUENCE_NUMBER``, ``_VALUE_KIND``, columns); append table: columns. At
                        most `batch_rows` rows each, none empty
    errors              NotFoundError; CorruptFileError for damaged bytes, another number of rows than `file` says or a missing
                        column; UnsupportedError for a format or cast that lakeidx does not have; each names the file
    memory              the compressed columns of a row group and a decoded batch
    """
    counters = counters if counters is not None else ReadCounters()
    keyed = bool(read_schema.primary_keys)
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
    plans = plan_columns(file_schema.fields, wanted)
    encoded = [p.source.name for p in plans if p.source is not None and p.field.name in dictionary_columns]
    source = _open(store, path, file.file_size if file is not None else None, file_schema, encoded)
    if file is not None and source.rows != file.row_count:
        raise CorruptFileError(f"expected {file.row_count} rows, found {source.rows}", path=path)
    names = [n for n, _ in _SYSTEM] if keyed else []
    names += [p.source.name for p in plans if p.source is not None]
    # Files of data evolution hold some of the schema's columns; all others hold all.
    written = set(names if file is None or file.write_cols is None else file.write_cols)
    missing = [n for n in names if n not in source.schema.names]
    if any(n in written for n in missing):
        raise CorruptFileError(f"the file has no column {missing[0]!r}", path=path)
    names = [n for n in names if n not in missing]
    row_filter = RowFilter(deletion_vector, selection)
    batches = source.batches(
        list(dict.fromkeys(names)),
        row_filter=row_filter,
        predicate=file_predicate,
        fields=file_schema.fields,
        batch_rows=batch_rows,
        counters=counters,
    )
    for first, raw in batches:
        mask = None if row_filter.keeps_all else row_filter.mask(first, raw.num_rows)
        table = raw if mask is None else raw.filter(pa.array(mask))
        if table.num_rows:
            counters.rows_given += table.num_rows
            yield _evolved(table, plans, keyed=keyed, path=path, encoded=dictionary_columns)


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
        raw = raw.cast(raw.type.value_type)
    column = evolve_column(plan, raw, table.num_rows)
    return column.dictionary_encode() if as_dictionary else column


def _schema(names: list[str], columns: list[pa.ChunkedArray], fields: list[Field], *, keyed: bool) -> pa.Schema:
    nullable = ([False, False] if keyed else []) + [f.type.nullable for f in fields]
    return pa.schema([pa.field(n, c.type, null) for n, c, null in zip(names, columns, nullable, strict=True)])
