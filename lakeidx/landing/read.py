"""Reads landing files (Parquet, Arrow IPC, ORC, Avro, CSV, JSON, Excel) in bounded pieces, as they are, before any cast.

Every piece knows where its rows are in the file, so that a rejected row can be named by its line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.data.parquet.chunks import FooterChunks, damage_of, open_footer
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.landing.changes import change_formats
from lakeidx.landing.columnar.batches import TYPED_FORMATS, read_typed
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.landing.new_columns import new_columns
from lakeidx.landing.text.compressed import CODECS, open_plain, without_codec
from lakeidx.landing.text.csv import read_csv
from lakeidx.landing.text.json_lines import read_json
from lakeidx.landing.text.shares import TextShare
from lakeidx.landing.text.utf8 import check_layout
from lakeidx.landing.types import ROW_FORMATS, BadLine, LandingOptions, Piece, check_columns, rows_at_a_time
from lakeidx.landing.written.excel import read_excel
from lakeidx.landing.written.file_columns import read_with_names
from lakeidx.plugins import NO_PLUGINS
from lakeidx.storage.base import ObjectStore, innermost
from lakeidx.types import Field

__all__ = [
    "BadLine",
    "LandingOptions",
    "Piece",
    "check_columns",
    "landing_format",
    "open_parquet",
    "read_landing",
]

_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".orc": "orc",
    ".avro": "avro",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".xlsx": "excel",
    ".xlsm": "excel",
}
_TEXTS = ("csv", "jsonl")
#: What help texts say of the endings.
ENDINGS = ".parquet .arrow .orc .avro .csv .json .xlsx, texts also .gz .zst"


def landing_format(path: str, options: LandingOptions) -> str:
    """Find the format of a landing file; InvalidInputError when the ending is unknown."""
    if options.format is not None and options.format != "dms":
        if options.format not in ROW_FORMATS and options.format not in change_formats():
            formats = ", ".join((*ROW_FORMATS, *change_formats()))
            none = "" if change_formats() else f"; of changes {NO_PLUGINS}"
            raise InvalidInputError(f"unknown landing format {options.format!r}; use one of {formats}{none}")
        return options.format
    plain = without_codec(path)
    found = next((name for suffix, name in _SUFFIXES.items() if plain.lower().endswith(suffix)), None)
    if found is None:
        endings = f"{', '.join(_SUFFIXES)} (texts also with {' or '.join(CODECS)} behind it)"
        raise InvalidInputError(f"cannot derive the format from the file extension; use {endings}", path=path)
    if plain != innermost(path) and found not in _TEXTS:
        raise InvalidInputError(f"{found} files compress their columns themselves: give the plain file", path=path)
    return found


def is_landing_file(path: str) -> bool:
    """Return True for a path with an ending of a landing file."""
    return without_codec(path).lower().endswith(tuple(_SUFFIXES))


def open_chunks(store: ObjectStore, path: str) -> tuple[FooterChunks, dict[str, tuple[int, str]]]:
    """Return the column chunks of a landing Parquet file's footer, and of each leaf column its number and physical type.

    errors   CorruptFileError
    """
    with damage_of(path):
        footer = open_footer(store.open_input(path), path)
        return footer.chunks, {leaf.path: (i, leaf.physical_type) for i, leaf in enumerate(footer.leaves)}


def open_parquet(store: ObjectStore, path: str) -> pq.ParquetFile:
    """Open a landing Parquet file; clear errors when it is missing, empty or not Parquet."""
    size = store.size(path)
    if size == 0:
        raise InvalidInputError("the landing file is empty (0 bytes)", path=path)
    try:
        return pq.ParquetFile(store.open_input(path, size=size), page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(f"not a readable Parquet file: {error}", path=path) from error


def read_landing(
    store: ObjectStore,
    path: str,
    fields: Sequence[Field],
    options: LandingOptions,
    *,
    keys: Collection[str] = (),
    share: TextShare | None = None,
) -> Iterator[Piece]:
    """Read the pieces of a landing file, in file order; with `merge_schema` first what the table has to get for it.

    keys     columns that are never widened
    share    of a text file: what is read of it
    errors   NotFoundError, InvalidInputError (empty, another schema, broken CSV), CorruptFileError (Parquet), naming the file
    """
    if options.changes_columns:

        def read(inside: Sequence[Field], named: Collection[str]) -> Iterator[Piece]:
            return _read(store, path, inside, options, named, share)

        yield from read_with_names(read, path, fields, options, keys)
    else:
        yield from _read(store, path, fields, options, keys, share)


def _read(
    store: ObjectStore,
    path: str,
    fields: Sequence[Field],
    options: LandingOptions,
    keys: Collection[str],
    share: TextShare | None,
) -> Iterator[Piece]:
    kind = landing_format(path, options)
    if kind == "parquet":
        yield from _read_parquet(store, path, fields, options, keys)
        return
    try:
        size = store.size(path)
    except NotFoundError:
        raise NotFoundError("the landing file does not exist", path=path) from None
    if size == 0:
        raise InvalidInputError("the landing file is empty (0 bytes)", path=path)
    if kind in (*TYPED_FORMATS, "excel"):
        with store.open_input(path, size=size) as source:
            if kind == "excel":
                yield from read_excel(source, path, fields, options)
            else:
                yield from read_typed(kind, source, path, fields, options, keys)
        return
    with open_plain(store, path, share, encoding=options.encoding) as source:
        if kind == "csv":
            yield from read_csv(source, path, fields, options, share=share)
        else:
            yield from read_json(source, path, fields, options, share=share)


def _read_parquet(
    store: ObjectStore, path: str, fields: Sequence[Field], options: LandingOptions, keys: Collection[str]
) -> Iterator[Piece]:
    file = open_parquet(store, path)
    names = file.schema_arrow.names
    check_columns(names, fields, options, path)
    extra = new_columns(
        options.kept(file.schema_arrow),
        fields,
        options.merge_schema,
        keys=keys,
        ignore_extra=options.ignore_extra,
        path=path,
    )
    if extra:
        yield Piece(pa.table({}), 1, extra=extra)
        return
    wanted = [n for n in names if n == KIND_COLUMN or any(f.name == n for f in fields)]
    position = 1
    groups = [file.metadata.row_group(g) for g in range(file.metadata.num_row_groups)]
    most = min((rows_at_a_time(g.num_rows, g.total_byte_size) for g in groups), default=1)
    try:
        for batch in file.iter_batches(batch_size=most, columns=wanted):
            check_layout(batch)
            yield Piece(pa.Table.from_batches([batch]), position)
            position += batch.num_rows
    except pa.ArrowNotImplementedError as error:
        # Such as dictionaries in a ROW, which Arrow writes.
        raise InvalidInputError(
            f"Arrow cannot read the Parquet file ({error}): write it with plain types", path=path
        ) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(f"the Parquet file is damaged after row {position - 1}: {error}", path=path) from error
