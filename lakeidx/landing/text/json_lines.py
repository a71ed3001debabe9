"""JSON lines landing files: blocks of whole lines to Arrow; a block that Arrow refuses is read line by line.

Arrow reads a block when the values of a column are all written alike: numbers, or all as strings that cast. Blocks with broken
lines, mixed spellings or numbers beyond 64 bits take the slow way, which says for every line what is wrong with it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson
from numpy.typing import NDArray

from lakeidx.errors import InvalidInputError
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.landing.new_columns import says_nothing
from lakeidx.landing.text.compressed import not_text
from lakeidx.landing.text.json_arrays import ArrayRows, is_array
from lakeidx.landing.text.json_values import (
    json_text,
    json_text_of,
    parse_json,
    take_new_fields,
    type_of_value,
    type_of_values,
    wider_of_values,
)
from lakeidx.landing.text.shares import TextShare
from lakeidx.landing.text.utf8 import is_utf8
from lakeidx.landing.types import BadLine, LandingOptions, Piece, check_columns
from lakeidx.types import INT_ROOTS, DataType, Field, Root, to_arrow

BLOCK_BYTES = 8 << 20
_BOM = b"\xef\xbb\xbf"
_TEXT_CHARACTERS = 2000
#: Ends the names of fields that say where a null was written; a character of JSON texts that no name of a column has.
_MARK = "\x7f"
#: A line that ends where the first value of an object is to come, or inside of it.
_OPENED = re.compile(rb'\{\s*("(?:[^"\\]|\\.)*"\s*:\s*[\[{]?\s*)?$')
_NULL = re.compile(rb'(?<!\\)"([ \t]*:[ \t]*)null')


def read_jsonl(
    source: Any,
    path: str,
    fields: Sequence[Field],
    options: LandingOptions,
    *,
    block_bytes: int = BLOCK_BYTES,
    line: int = 1,
) -> Iterator[Piece]:
    """Read the pieces of a JSON lines file; a column that a line leaves out is null there, and said to be absent.

    source   binary file
    line     number of its first line: not 1 for a share of a file
    errors   InvalidInputError when the first object has columns that are not the table's, or no line of the first block
             has a required column
    """
    for block in line_blocks(source, block_bytes, begins=line == 1):
        first = _first_object(block)
        if line == 1:
            check_columns(list(first), fields, options, path, complete=False)
            lacking = [f.name for f in fields if not f.type.nullable and json.dumps(f.name)[1:-1].encode() not in block
                       and f.name.encode() not in block]  # fmt: skip
            if lacking:
                raise InvalidInputError(
                    f"the landing file lacks the required columns {', '.join(lacking)}; its first object has "
                    f"{', '.join(first) or 'none'}",
                    path=path,
                )
        piece = _fast(block, first, fields, line, options) or _slow(block, fields, line, options)
        if piece.rows.num_rows or piece.bad_lines or piece.extra:
            yield piece
        line += block.count(b"\n")


def read_json(
    source: Any, path: str, fields: Sequence[Field], options: LandingOptions, *, share: TextShare | None = None
) -> Iterator[Piece]:
    """Read the pieces of a JSON file: an object a line, an array of objects, or an object with the array in a member.

    source   binary file
    share    what is read of a file of lines, when that is not all
    errors   as for `read_jsonl`; InvalidInputError without such an array
    """
    if share is not None:
        yield from read_jsonl(source, path, fields, options, line=share.line)
        return
    begun = _Begun(source)
    if not is_array(begun.first, options.member):
        _refuse_object(begun.first, path)
        yield from read_jsonl(begun, path, fields, options)
        return
    rows = ArrayRows(begun, path, options.member)
    for piece in read_jsonl(rows, path, fields, options):
        lines = piece.lines if piece.lines is not None else piece.first_line + np.arange(piece.rows.num_rows)
        mine = rows.lines_of(lines)
        bad = tuple(replace(b, line=int(rows.lines_of([b.line])[0])) for b in piece.bad_lines)
        yield replace(piece, first_line=int(mine[0]) if len(mine) else 1, lines=mine, bad_lines=bad)


def _refuse_object(first: bytes, path: str) -> None:
    """Refuse a file whose first line is but the begin of an object, which may have the rows in a member."""
    line, _, more = first.removeprefix(_BOM).lstrip().partition(b"\n")
    if more.strip() and _OPENED.match(line):
        raise InvalidInputError(
            "the file is an object over several lines, not an object a line: say which of its members is the array of rows "
            "(member, --member)",
            path=path,
        )


class _Begun:
    """A file whose first bytes are known."""

    def __init__(self, source: Any) -> None:
        self.first = bytes(source.read(1 << 16))
        self._source, self._rest = source, self.first

    def read(self, size: int) -> bytes:
        """Read some bytes; none at the end."""
        data, self._rest = self._rest or bytes(self._source.read(size)), b""
        return data


def line_blocks(source: Any, block_bytes: int, *, begins: bool = True) -> Iterator[bytes]:
    """Return the whole lines, each ended by a line feed; carriage returns before it and a byte order mark are removed.

    begins   this is the beginning of a file
    """
    rest, first = b"", begins
    while chunk := bytes(source.read(block_bytes)):
        data = rest + chunk
        if first:
            data, first = data.removeprefix(_BOM), False
        cut = data.rfind(b"\n") + 1
        if cut:
            yield data[:cut].replace(b"\r\n", b"\n")
        rest = data[cut:]
    if rest.strip():
        yield rest.removesuffix(b"\r") + b"\n"


def halves(block: bytes) -> tuple[bytes, bytes]:
    """Cut a block of several lines at the line end nearest after its middle; before it, when that is the end."""
    cut = block.find(b"\n", len(block) // 2) + 1
    if cut in (0, len(block)):
        cut = block.rfind(b"\n", 0, len(block) - 1) + 1
    return block[:cut], block[cut:]


def _first_object(block: bytes) -> dict[str, Any]:
    text = next((part for part in block.split(b"\n", 20) if part.strip()), b"")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _fast(
    block: bytes, first: dict[str, Any], fields: Sequence[Field], line: int, options: LandingOptions
) -> Piece | None:
    """Read the block by Arrow's reader; None when it might not return every line as one row with the values as written."""
    types = [json_type(f.type, first.get(f.name)) for f in fields]
    if any(t is None for t in types):
        return None
    schema = pa.schema([*zip([f.name for f in fields], types, strict=True), (KIND_COLUMN, pa.string())])
    strict = options.merge_schema == "refuse" and not options.dropped
    behaviour = "ignore" if options.ignore_extra else "error" if strict else "infer"
    try:
        rows = pajson.read_json(
            io.BytesIO(block),
            read_options=pajson.ReadOptions(use_threads=False, block_size=max(len(block) + 1, 1 << 20)),
            parse_options=pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior=behaviour),
        )
        named = rows.column_names
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if not is_utf8(rows) or not _all_whole(rows, fields):
        return None
    lines = filled_lines(block) + line
    if rows.num_rows != len(lines):
        return None
    unknown = set(named) - {*schema.names, *options.dropped, *says_nothing(rows.schema, fields)}
    if unknown and options.merge_schema == "refuse" and not options.ignore_extra:
        return None
    extra = {n: type_of_values(rows.schema.field(n).type) for n in named if n in unknown}
    nulls = {f.name: nulls_of(rows.column(f.name)) for f in fields if rows.column(f.name).null_count}
    absent = {} if options.missing == "null" or not nulls else _absent(block, nulls)
    if absent is None:
        return None
    return Piece(rows.select(schema.names), int(lines[0]) if len(lines) else line, lines, extra=extra, absent=absent)


def nulls_of(values: pa.ChunkedArray | pa.Array) -> NDArray[np.bool_]:
    """Return bool[n]: values that are null."""
    return np.asarray(pc.is_null(values))


def _absent(block: bytes, nulls: Mapping[str, NDArray[np.bool_]]) -> dict[str, NDArray[np.bool_]] | None:
    """Find which nulls are columns that the line does not have; None when the block has to be read line by line."""
    if b"null" not in block:
        return dict(nulls)
    written = written_nulls(block, pa.schema([(marked(n), pa.bool_()) for n in nulls]))
    if written is None:
        return None
    found = {n: mask & nulls_of(written.column(marked(n))) for n, mask in nulls.items()}
    return {n: mask for n, mask in found.items() if mask.any()}


def marked(name: str) -> str:
    """Return the name of the field that `written_nulls` has for a field."""
    return name + _MARK


def written_nulls(block: bytes, schema: pa.Schema) -> pa.Table | None:
    """Read where nulls are written: a row per line, with true in place of each, and null where a field is absent.

    Arrow's reader gives null for both. Here every field that has null in the text gets another name, and true.
    schema   the fields to read, of type bool, by `marked` names
    returns  None when the text has to be read line by line
    """
    if any(name.endswith("\\" + _MARK) for name in _leaves(schema)):
        return None
    try:
        return pajson.read_json(
            io.BytesIO(_with_marks(block)),
            read_options=pajson.ReadOptions(use_threads=False, block_size=max(2 * len(block), 1 << 20)),
            parse_options=pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowException:
        return None


def _leaves(fields: Any) -> Iterator[str]:
    for f in fields:
        t = f.type.value_type if pa.types.is_list(f.type) else f.type
        if pa.types.is_struct(t):
            yield from _leaves(t)
        else:
            yield f.name


def _with_marks(block: bytes) -> bytes:
    mark = _MARK.encode()
    if b'\\":null' not in block and b'\\": null' not in block:
        quick = block.replace(b'":null', mark + b'":true').replace(b'": null', mark + b'": true')
        if b"null" not in quick:
            return quick
    return _NULL.sub(mark + b'"\\1true', block)


def _all_whole(rows: pa.Table, fields: Sequence[Field]) -> bool:
    """Return True unless a number for an integer column, read as a decimal, has a fraction: it is shown as it was written."""
    read = (rows.column(f.name) for f in fields if f.type.root in INT_ROOTS)
    return all(pc.all(pc.equal(pc.floor(c), c), min_count=0).as_py() for c in read if pa.types.is_decimal(c.type))


def filled_lines(block: bytes) -> NDArray[np.int64]:
    """Return the numbers, from 0, of the lines that are not empty."""
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 10)
    return np.flatnonzero(np.diff(ends, prepend=-1) > 1)


def json_type(t: DataType, example: Any) -> pa.DataType | None:
    """Return the Arrow type to read a column as, by the way its first value is written; None = this column needs the slow way."""
    if t.is_nested or t.root is Root.VARIANT:
        return None
    if isinstance(example, str):
        return pa.string()
    if isinstance(example, bool) or (example is None and t.root is Root.BOOLEAN):
        return pa.bool_() if t.root is Root.BOOLEAN else None
    if t.root in INT_ROOTS:
        if isinstance(example, float):
            # 1.0, of programs whose columns of numbers with nulls are floats.
            return pa.decimal256(76, 38)
        return pa.int64() if example is None or isinstance(example, int) else None
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return pa.float64()
    if t.root is Root.DECIMAL:
        # Arrow reads decimals from the digits as they are written, never through a float.
        return to_arrow(t)
    return pa.string() if example is None else None


def _slow(block: bytes, fields: Sequence[Field], line: int, options: LandingOptions) -> Piece:
    """Read the block line by line; all values as text, nested ones as JSON text."""
    nested = {f.name for f in fields if f.type.is_nested or f.type.root is Root.VARIANT}
    growing = [f for f in fields if f.type.is_nested] if options.merge_schema != "refuse" else []
    names = [*(f.name for f in fields), KIND_COLUMN]
    known = {*names, *options.dropped}
    columns: dict[str, list[str | None]] = {n: [] for n in names}
    absent: dict[str, list[bool]] = {f.name: [] for f in fields} if options.missing != "null" else {}
    lines: list[int] = []
    bad: list[BadLine] = []
    types: dict[str, DataType] = {}
    for number, raw in enumerate(block.split(b"\n")[:-1], line):
        if not raw.strip():
            continue
        value = parse_line(raw, number, encoding=options.encoding)
        if isinstance(value, BadLine):
            bad.append(value)
            continue
        extra = sorted(set(value) - known)
        if extra and not options.ignore_extra and options.merge_schema == "refuse":
            bad.append(
                BadLine(
                    number, f"unknown columns {', '.join(n if n.strip() else repr(n) for n in extra)}", shown_text(raw)
                )
            )
            continue
        if not options.ignore_extra:
            types |= {n: wider_of_values(types.get(n), type_of_value(value[n])) for n in extra if value[n] is not None}
            for f in growing:
                take_new_fields(_unpacked(value, f.name), f.type, f.name, types)
        lines.append(number)
        for name, column in columns.items():
            column.append(json_text_of(value.get(name), name in nested))
        for name, gone in absent.items():
            gone.append(name not in value)
    rows = pa.table({n: pa.array(c, type=pa.string()) for n, c in columns.items()})
    masks = {n: np.array(gone, dtype=bool) for n, gone in absent.items() if any(gone)}
    return Piece(rows, lines[0] if lines else line, lines, tuple(bad), extra=types, absent=masks)


def _unpacked(row: dict[str, Any], name: str) -> Any:
    """Return the value of a nested column; JSON inside a string replaces the string."""
    value = row.get(name)
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):  # what is no JSON is rejected where it is cast
            value = row[name] = parse_json(value)
    return value


def parse_line(raw: bytes, number: int, *, encoding: str | None = None) -> dict[str, Any] | BadLine:
    """Return the object of a line, numbers as they are written, or what is wrong with it."""
    try:
        value = parse_json(raw.decode("utf-8"), unique_names=True)
        # Lone surrogates are JSON, but no text that can be stored.
        json_text(value).encode("utf-8")
    except UnicodeError:
        return BadLine(number, not_text(encoding), shown_text(raw))
    except (ValueError, RecursionError) as error:
        return BadLine(number, f"not JSON: {error}", shown_text(raw))
    if not isinstance(value, dict):
        return BadLine(number, "a line must be a JSON object", shown_text(raw))
    return value


def shown_text(raw: bytes) -> str:
    """Return a line as a rejected row shows it."""
    return raw.decode("utf-8", "replace").strip()[:_TEXT_CHARACTERS]
