"""Arrow IPC landing files, of the file and of the stream format: record batches as they are, validated first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakeidx.errors import CorruptFileError
from lakeidx.landing.new_columns import new_columns
from lakeidx.landing.row_kinds import KIND_COLUMN
from lakeidx.landing.text.utf8 import check_layout
from lakeidx.landing.types import LandingOptions, Piece, check_columns, rows_at_a_time
from lakeidx.types import Field

_MAGIC = b"ARROW1"


def read_arrow_ipc(
    source: Any, path: str, fields: Sequence[Field], options: LandingOptions, *, keys: Collection[str] = ()
) -> Iterator[Piece]:
    """Read the pieces of an Arrow IPC file; memory follows its record batches.

    source   binary file that can seek
    keys     columns that are never widened
    errors   InvalidInputError for columns that are not the table's; CorruptFileError naming the row before the damage
    """
    position = 1
    try:
        schema, batches = _open(source)
        check_columns(schema.names, fields, options, path)
        extra = new_columns(
            options.kept(schema), fields, options.merge_schema, keys=keys, ignore_extra=options.ignore_extra, path=path
        )
        if extra:
            yield Piece(pa.table({}), 1, extra=extra)
            return
        wanted = [n for n in schema.names if n == KIND_COLUMN or any(f.name == n for f in fields)]
        for batch in batches:
            # The bytes are a stranger's: offsets that point outside of them must not reach a kernel.
            check_layout(batch)
            rows = pa.Table.from_batches([batch]).select(wanted)
            most = rows_at_a_time(rows.num_rows, rows.nbytes)
            for start in range(0, rows.num_rows, most):
                piece = _plain(rows.slice(start, most))
                yield Piece(piece, position)
                position += piece.num_rows
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise CorruptFileError(f"not a readable Arrow file after row {position - 1}: {error}", path=path) from error


def arrow_ipc_names(source: Any, path: str) -> list[str]:
    """Return the names of the columns; CorruptFileError when the file is no Arrow IPC file."""
    try:
        return list(_open(source)[0].names)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise CorruptFileError(f"not a readable Arrow file: {error}", path=path) from error


def _open(source: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    begin = source.read(len(_MAGIC))
    source.seek(0)
    if begin == _MAGIC:
        file = pa.ipc.open_file(source)
        return file.schema, (file.get_batch(i) for i in range(file.num_record_batches))
    stream = pa.ipc.open_stream(source)
    return stream.schema, iter(stream)


def _plain(rows: pa.Table) -> pa.Table:
    """Decode dictionary columns: the table has their values."""
    for i, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(field.type.value_type))
    return rows
