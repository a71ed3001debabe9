"""Tables that Spark makes: with the columns of a data frame, by the options of a write or by `create`.

frame.write.format("lakeidx").option("primary-key", "id").option("bucket", "4").mode("append").save("/lake/shop.db/orders")
create(frame, "/lake/shop.db/orders", primary_key=["id"], partition_by=["day"], name="orders")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.options.arguments import PathLike, path_text
from lakeidx.spark.catalog_tables import escaped
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.values import arrow_schema
from lakeidx.storage import open_store
from lakeidx.storage.overlay import OverlayStore
from lakeidx.table.handle import TableHandle
from lakeidx.types import column_specs

if TYPE_CHECKING:
    from lakeidx.batch.committed_batch import BatchResult

#: Options that name a table's primary key and its partition columns.
_KEYS = ("primary-key", "partition")


def create(
    rows: DataFrame | StructType,
    table: PathLike,
    *,
    primary_key: Sequence[str],
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    name: str | None = None,
) -> BatchResult | None:
    """Make a table, with the rows when a data frame is given; return what their batch did.

    table     its directory, absolute, as a path or URI
    options   of the table, and those of writes
    name      also make this name in the catalog of the session
    errors    InvalidInputError when there is a table or a name, or for columns, keys and options that do not go together, or for
              rows that the table refuses; nothing is made then
    """
    from lakeidx.spark.frame_upsert import upsert

    path = path_text(table)
    given = {**(options or {}), "path": path, "primary-key": ",".join(primary_key)}
    if partition_by:
        given["partition"] = ",".join(partition_by)
    columns = rows if isinstance(rows, StructType) else rows.schema
    session = SparkSession.active() if isinstance(rows, StructType) else rows.sparkSession
    if name is not None and session.catalog.tableExists(name):
        raise InvalidInputError(
            f"Spark's catalog has {name} already: DROP TABLE {name} forgets the name, never the rows"
        )
    # That of a frame is made when its rows are staged.
    planned = not isinstance(rows, StructType)
    parsed = ReadOptions.parse(given, writes=True)
    with suppress(NotFoundError):
        raise InvalidInputError("the table already exists; upsert(frame, path) writes into it", path=parsed.open().uri)
    _make(parsed, arrow_schema(columns), exist_ok=False, planned=planned)
    done = None if isinstance(rows, StructType) else upsert(rows, path, options=given)
    if name is not None:
        session.sql(f"CREATE TABLE {name} USING lakeidx LOCATION '{escaped(path)}'")
    return done


def opened(options: ReadOptions, columns: pa.Schema) -> tuple[TableHandle, bool]:
    """Open the table of a write; plan it with the columns of the frame when there is none and a primary key is given.

    returns  the table, and True when it is planned: it is in memory, and `made` makes it
    errors   NotFoundError; InvalidInputError for options that the table has otherwise
    """
    try:
        table = options.open()
    except NotFoundError as error:
        if "primary-key" not in options.table_options:
            raise NotFoundError(
                f'{error.message}; .option("primary-key", "id") makes a table with the columns of the data frame',
                path=error.path,
            ) from error
        return _make(options, columns, exist_ok=True, planned=True), True
    _check_same(table.schema, options)
    _refuse_absent(columns.names, table.schema.primary_keys)
    return table, False


def made(options: ReadOptions, columns: pa.Schema) -> TableHandle:
    """Make a table that was planned; take one that another program has made meanwhile, when it is the same.

    errors   InvalidInputError when it is another
    """
    table = _make(options, columns, exist_ok=True)
    _check_same(table.schema, options)
    return table


def _refuse_absent(columns: Sequence[str], keys: Sequence[str]) -> None:
    absent = [k for k in keys if k not in columns]
    if absent:
        raise InvalidInputError(f"the data frame has no column {absent[0]}, which is of the table's keys or partitions")


def _make(options: ReadOptions, columns: pa.Schema, *, exist_ok: bool, planned: bool = False) -> TableHandle:
    from lakeidx.batch.index_types import check_index_type

    fields = [c for c in columns if c.name != KIND_COLUMN]
    keys = [k for option in _KEYS for k in _texts(options.table_options.get(option, ""))]
    _refuse_absent([c.name for c in fields], keys)
    spec = {"fields": column_specs(fields), "options": dict(options.table_options)}
    check_index_type(new_schema(spec))
    store = open_store(options.path, options.storage or None)
    return TableHandle.create_in(OverlayStore(store) if planned else store, options.path, spec, exist_ok=exist_ok)


def _check_same(schema: TableSchema, options: ReadOptions) -> None:
    """Refuse what a write says of a table that is otherwise: it would change nothing."""
    keys = dict(zip(_KEYS, (schema.primary_keys, schema.partition_keys), strict=True))
    for key, value in options.table_options.items():
        if key in keys:
            if set(_texts(value)) != set(keys[key]):
                raise InvalidInputError(f"{key} = {value}: the table has {','.join(keys[key]) or 'none'}")
            continue
        has = schema.options.get(key)
        # A table keeps lists without the blanks that they were written with.
        if has is None or _texts(has) != _texts(value):
            raise InvalidInputError(
                f"{key} = {value}: the table has {has or 'not set it'}; lakeidx table alter --set changes it"
            )


def _texts(text: str) -> list[str]:
    return [part for t in text.split(",") if (part := t.strip())]
