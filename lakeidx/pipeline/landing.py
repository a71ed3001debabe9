"""Reads landing files (Parquet, CSV, JSON lines) in bounded pieces, as they are, before any cast.

Every piece knows where its rows stand in the file, so that a rejected row can be named by its line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.pipeline.kinds import KIND_COLUMN
from lakeidx.pipeline.landing_csv import read_csv
from lakeidx.pipeline.landing_json import read_jsonl
from lakeidx.pipeline.landing_types import BadLine, LandingOptions, Piece, check_columns
from lakeidx.storage.base import ObjectStore
from lakeidx.types import Field

__all__ = [
    "FORMATS",
    "BadLine",
    "LandingOptions",
    "Piece",
    "check_columns",
    "landing_format",
    "open_parquet",
    "read_landing",
]

FORMATS = ("parquet", "csv", "jsonl")
_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_BATCH_ROWS = 131_072


def landing_format(path: str, options: LandingOptions) -> str:
    """The format of a landing file; InvalidInputError when the ending does not tell."""
    if options.format is not None:
        if options.format not in FORMATS:
            raise InvalidInputError(f"unknown landing format {options.format!r}; use one of {', '.join(FORMATS)}")
        return options.format
    for suffix, name in _SUFFIXES.items():
        if path.lower().endswith(suffix):
            return name
    raise InvalidInputError(f"cannot tell the format by the ending; use {', '.join(_SUFFIXES)}", path=path)


def open_parquet(store: ObjectStore, path: str) -> pq.ParquetFile:
    """A landing Parquet file; clear errors when it is missing, empty or not Parquet."""
    size = store.size(path)
    if size == 0:
        raise InvalidInputError("the landing file is empty (0 bytes)", path=path)
    try:
        return pq.ParquetFile(store.open_input(path, size=size))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(f"not a readable Parquet file: {error}", path=path) from error


def read_landing(store: ObjectStore, path: str, fields: Sequence[Field], options: LandingOptions) -> Iterator[Piece]:
    """Pieces of a landing file, in file order.

    errors   NotFoundError, InvalidInputError (empty, another schema, broken CSV), CorruptFileError (Parquet), naming the file
    """
    kind = landing_format(path, options)
    if kind == "parquet":
        yield from _read_parquet(store, path, fields, options)
        return
    try:
        size = store.size(path)
    except NotFoundError:
        raise NotFoundError("the landing file does not exist", path=path) from None
    if size == 0:
        raise InvalidInputError("the landing file is empty (0 bytes)", path=path)
    with store.open_input(path, size=size) as source:
        yield from (read_csv if kind == "csv" else read_jsonl)(source, path, fields, options)


def _read_parquet(store: ObjectStore, path: str, fields: Sequence[Field], options: LandingOptions) -> Iterator[Piece]:
    file = open_parquet(store, path)
    names = file.schema_arrow.names
    check_columns(names, fields, options, path)
    wanted = [n for n in names if n == KIND_COLUMN or any(f.name == n for f in fields)]
    position = 1
    try:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
            yield Piece(pa.Table.from_batches([batch]), position)
            position += batch.num_rows
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(f"the Parquet file is damaged after row {position - 1}: {error}", path=path) from error
