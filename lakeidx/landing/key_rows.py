"""Keys in a landing file: columns of a batch, or whole record keys of Hudi."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.key_index.keys.record_key import record_keys
from lakeidx.landing.cast_rows import cast_piece
from lakeidx.landing.columnar.batches import TYPED_FORMATS, open_typed
from lakeidx.landing.read import LandingOptions, is_landing_file, landing_format, open_parquet, read_landing
from lakeidx.landing.text.compressed import open_plain
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.landing_folders import open_landing
from lakeidx.types import DataType, Field, parse_type, to_arrow_schema

#: Columns that hold a whole record key, when the file has one and none is named.
_WHOLE_KEY = ("_hoodie_record_key", "record_key", "key")
_ANY = LandingOptions(ignore_extra=True)
_FIRST_LINE_BYTES = 1 << 20


def read_key_rows(path: str, fields: Sequence[Field]) -> pa.Table:
    """Read the given columns of a file, cast to their types.

    returns  n rows, columns in the order of `fields`
    errors   InvalidInputError naming the line for a value that cannot be a key; NotFoundError, CorruptFileError
    """
    return pa.concat_tables([to_arrow_schema(fields).empty_table(), *key_pieces(path, fields)])


def key_pieces(path: str, fields: Sequence[Field]) -> Iterator[pa.Table]:
    """Read the given columns of a file in pieces, as `read_key_rows`; a file with an unknown ending is read as JSON lines."""
    schema = to_arrow_schema(fields)
    options = _ANY if is_landing_file(path) else LandingOptions("jsonl", ignore_extra=True)
    store = open_landing(path)
    before = store.info(path)
    for piece in read_landing(store, path, fields, options):
        kept, rejected = cast_piece(piece, fields, path, as_stored=True)
        if rejected.num_rows:
            have = column_names(store, path, options)
            for field in fields:
                if field.name not in have and not field.type.nullable:
                    raise InvalidInputError(_no_column(field.name, have), path=path)
            first = rejected.slice(0, 1).to_pylist()[0]
            raise InvalidInputError(f"line {first['line']}: {first['reason']}", path=path)
        yield kept.select(schema.names).cast(schema)
    if store.info(path) != before:
        raise InvalidInputError("the file changed while it was read; run this again", path=path)


def read_record_keys(path: str, key_fields: Sequence[str], column: str | None) -> pa.StringArray:
    """Record keys, as Hudi writes them, of the rows of a file.

    key_fields  the table's record key fields
    column      the column that holds whole record keys; None = a column of a usual name, else the record key fields,
                else the only column there is
    errors      InvalidInputError when no column is found, or a key is null; see `read_key_rows`
    """
    names = column_names(open_landing(path), path)
    wanted = _key_columns(path, names, key_fields, column)
    nullable = len(wanted) > 1
    text = parse_type("STRING" if nullable else "STRING NOT NULL")
    rows = read_key_rows(path, [Field(i, n, text) for i, n in enumerate(wanted)])
    return _put_together(rows, wanted)


def as_record_keys(rows: pa.Table, key_fields: Sequence[str], column: str | None) -> pa.StringArray:
    """Record keys, as Hudi writes them, of rows in memory; see `read_record_keys`."""
    return _put_together(rows, _key_columns(None, rows.column_names, key_fields, column))


def _put_together(rows: pa.Table, names: Sequence[str]) -> pa.StringArray:
    keys: RowBytes = record_keys([rows.column(n) for n in names], names, escaped=False)
    return keys.to_arrow().cast(pa.string())


def _key_columns(path: str | None, names: Sequence[str], key_fields: Sequence[str], column: str | None) -> list[str]:
    if column is not None:
        if column not in names:
            raise InvalidInputError(_no_column(column, names, "the file has" if path else "the rows have"), path=path)
        return [column]
    for name in _WHOLE_KEY:
        if name in names and name not in key_fields:
            return [name]
    if key_fields and set(key_fields) <= set(names):
        return list(key_fields)
    if len(names) == 1:
        return [names[0]]
    fields = ", ".join(key_fields) or "none"
    raise InvalidInputError(
        f"which column holds the keys? Name it with column (--column); there are {', '.join(names) or 'none'}, the table's "
        f"record key fields are {fields}",
        path=path,
    )


def _no_column(name: str, names: Sequence[str], listing: str = "the file has") -> str:
    return f"there is no column {name}; {did_you_mean(name, names, listing=listing)}"


def column_names(store: ObjectStore, path: str, options: LandingOptions = _ANY) -> list[str]:
    """Return the columns of a file; of JSON lines those of the first line.

    errors  NotFoundError, InvalidInputError (empty, not of its format), CorruptFileError (Parquet, Arrow, compressed texts)
    """
    kind = landing_format(path, options)
    if kind == "parquet":
        return list(open_parquet(store, path).schema_arrow.names)
    if kind in TYPED_FORMATS:
        with store.open_input(path) as source:
            return list(open_typed(kind, source, path)[0].names)
    with open_plain(store, path) as source:
        first = bytes(source.read(_FIRST_LINE_BYTES)).split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    if not first:
        raise InvalidInputError("the file is empty (0 bytes)", path=path)
    if kind == "csv":
        return next(csv.reader([first]), [])
    try:
        row = json.loads(first)
    except ValueError as error:
        raise InvalidInputError(f"line 1 is not JSON: {error}", path=path) from error
    if not isinstance(row, dict):
        raise InvalidInputError('line 1 is no JSON object; write e.g. {"key": "a"}', path=path)
    return list(row)


def landing_types(paths: Sequence[str], names: Sequence[str]) -> dict[str, DataType]:
    """Return the types of columns in landing files, as a table made of them would have them; none is nullable.

    Parquet columns have theirs; texts that are whole numbers throughout all files are BIGINT, all else is STRING.

    errors   InvalidInputError for a column that some file does not have
    """
    out: dict[str, DataType] = {}
    read = {path: _as_they_are(path, names) for path in paths}
    for name in names:
        found = {_type_of(rows.column(name)) for rows in read.values()}
        out[name] = parse_type(f"{found.pop() if len(found) == 1 else 'STRING'} NOT NULL")
    return out


def _as_they_are(path: str, names: Sequence[str]) -> pa.Table:
    store = open_landing(path)
    missing = [n for n in names if n not in (have := column_names(store, path))]
    if missing:
        raise InvalidInputError(_no_column(missing[0], have), path=path)
    if landing_format(path, _ANY) == "parquet":
        return open_parquet(store, path).read(columns=list(names))
    fields = [Field(i, n, parse_type("STRING")) for i, n in enumerate(names)]
    if landing_format(path, _ANY) in TYPED_FORMATS:
        return pa.concat_tables([piece.rows for piece in read_landing(store, path, fields, _ANY)])
    return read_key_rows(path, fields)


def _type_of(column: pa.ChunkedArray) -> str:
    t = column.type
    if pa.types.is_dictionary(t):
        t = t.value_type
    if pa.types.is_integer(t):
        return "BIGINT"
    if pa.types.is_date(t):
        return "DATE"
    if pa.types.is_timestamp(t):
        return "TIMESTAMP(6)"
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision}, {t.scale})"
    if len(column) and (pa.types.is_string(t) or pa.types.is_large_string(t)):
        numbers = pc.match_substring_regex(column, r"^(0|-?[1-9][0-9]{0,17})$")
        if pc.all(pc.fill_null(numbers, False)).as_py():
            return "BIGINT"
    return "STRING"
