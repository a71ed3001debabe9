"""Landing files of record batches: Arrow IPC (files and streams), ORC and Avro; batches as they are, validated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.landing.new_columns import new_columns
from lakeidx.landing.text.utf8 import check_layout
from lakeidx.landing.types import LandingOptions, Piece, check_columns, rows_at_a_time
from lakeidx.types import Field

_MAGIC = b"ARROW1"
#: Reads the batches of some columns.
Read = Callable[[list[str]], Iterator[pa.RecordBatch]]
_NAMES = {"arrow": "Arrow", "orc": "ORC", "avro": "Avro"}
#: The formats that are read here.
TYPED_FORMATS = tuple(_NAMES)
_TOO_FAR = "out of range for nanosecond resolution"
_DAMAGE = (pa.ArrowException, OSError, ValueError, MemoryError)


def read_typed(
    kind: str, source: Any, path: str, fields: Sequence[Field], options: LandingOptions, keys: Collection[str] = ()
) -> Iterator[Piece]:
    """Read the pieces of a file; memory follows its record batches, stripes (ORC), or its compressed bytes (Avro).

    kind     one of `TYPED_FORMATS`
    source   binary file that can seek
    keys     columns that are never widened
    errors   InvalidInputError for columns that are not the table's; CorruptFileError naming the row before the damage
    """
    schema, batches = open_typed(kind, source, path)
    check_columns(schema.names, fields, options, path)
    extra = new_columns(
        options.kept(schema), fields, options.merge_schema, keys=keys, ignore_extra=options.ignore_extra, path=path
    )
    if extra:
        yield Piece(pa.table({}), 1, extra=extra)
        return
    wanted = [n for n in schema.names if n == KIND_COLUMN or any(f.name == n for f in fields)]
    refuse_unions(schema, wanted, path)
    position = 1
    try:
        for batch in batches(wanted):
            # The bytes are a stranger's: offsets that point outside of them must not reach a kernel.
            check_layout(batch)
            rows = pa.Table.from_batches([batch])
            most = rows_at_a_time(rows.num_rows, rows.nbytes)
            for start in range(0, rows.num_rows, most):
                piece = _plain(rows.slice(start, most))
                yield Piece(piece, position)
                position += piece.num_rows
    except _DAMAGE as error:
        raise _damaged(kind, path, error, f" after row {position - 1}") from error


def open_typed(kind: str, source: Any, path: str) -> tuple[pa.Schema, Read]:
    """Return the columns of a file, and what reads its batches; CorruptFileError when it is not of its format."""
    try:
        schema, read = _open(kind, source, path)
        _read_names(schema)
        return schema, read
    except (*_DAMAGE, KeyError, TypeError) as error:
        raise _damaged(kind, path, error) from error


def _open(kind: str, source: Any, path: str) -> tuple[pa.Schema, Read]:
    if kind == "arrow":
        return _open_arrow(source)
    if kind == "orc":
        return _open_orc(source, path)
    from lakeidx.landing.columnar.avro import open_avro

    return open_avro(source, path)


def _damaged(kind: str, path: str, error: BaseException, where: str = "") -> CorruptFileError:
    return CorruptFileError(f"not a readable {_NAMES[kind]} file{where}: {error}", path=path)


def _read_names(inside: Any) -> None:
    """Read the names of columns and of what is inside them: Arrow decodes them late, and damaged ones are no text."""
    for field in inside if isinstance(inside, pa.Schema) else map(inside.field, range(inside.num_fields)):
        str(field.name)
        _read_names(field.type)


def _open_arrow(source: Any) -> tuple[pa.Schema, Read]:
    begin = source.read(len(_MAGIC))
    source.seek(0)
    if begin == _MAGIC:
        file = pa.ipc.open_file(source)
        return file.schema, lambda names: (file.get_batch(i).select(names) for i in range(file.num_record_batches))
    stream = pa.ipc.open_stream(source)
    return stream.schema, lambda names: (batch.select(names) for batch in stream)


def _open_orc(source: Any, path: str) -> tuple[pa.Schema, Read]:
    from pyarrow import orc

    file = orc.ORCFile(source)

    def is_too_far(stripe: int, name: str) -> bool:
        try:
            file.read_stripe(stripe, columns=[name])
        except pa.ArrowInvalid as error:
            return _TOO_FAR in str(error)
        return False

    def read(names: list[str]) -> Iterator[pa.RecordBatch]:
        for i in range(file.nstripes):
            try:
                yield file.read_stripe(i, columns=names).select(names)
            except pa.ArrowInvalid as error:
                # Arrow reads a stripe or none of it: the rows cannot be told apart.
                far = [n for n in names if _TOO_FAR in str(error) and is_too_far(i, n)]
                if not far:
                    raise
                raise InvalidInputError(
                    f"column {far[0]} has times beyond the years 1677 to 2262, which Arrow does not read of ORC: write the file as "
                    f"Parquet or Avro, or leave the column out (columns: {{{far[0]}: null}}, --columns {far[0]}=)",
                    path=path,
                ) from None

    # Arrow decodes names only when they are asked for: damaged ones are no UTF-8.
    return pa.schema(list(file.schema)), read


def refuse_unions(schema: pa.Schema, names: Sequence[str], path: str) -> None:
    """Raise InvalidInputError for a column, or a part of one, whose values are of several types."""
    for name in names:
        parts = [schema.field(name)]
        while parts:
            part = parts.pop()
            if pa.types.is_union(part.type):
                raise InvalidInputError(
                    f"column {name} has values of several types (a union), which no column holds: write it as one type, or leave "
                    f"it out (columns: {{{name}: null}}, --columns {name}=)",
                    path=path,
                )
            parts += [part.type.field(i) for i in range(part.type.num_fields)]


def _plain(rows: pa.Table) -> pa.Table:
    """Decode dictionary columns: the table has their values."""
    for i, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(field.type.value_type))
    return rows
