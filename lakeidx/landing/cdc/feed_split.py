"""Split of a feed of many tables into one file of messages for each, in one read.

A part has the lines of its table where the feed has them, and blank lines in place of the others: a rejected row is named by its
line in the feed. Blank lines cost next to nothing in a compressed file.

Declarations of the source's tables in messages of rows and of DDL: types of columns and primary keys.

==========  =================================================================  ===========================================
format      types of columns                                                   primary key
==========  =================================================================  ===========================================
debezium    the ``schema`` part; ``tableChanges`` of its schema changes        ``tableChanges``
canal       ``mysqlType``                                                      ``pkNames``
maxwell     ``def`` of ``table-create`` and ``table-alter``, but for decimals  ``def``; ``primary_key_columns``
ogg         none                                                               ``primary_keys``
dms-json    ``control.table-def``, where control details are included          ``table-def``
==========  =================================================================  ===========================================
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakeidx.errors import InvalidInputError
from lakeidx.landing.cdc.connect_schema import split_runs
from lakeidx.landing.cdc.envelopes import ENVELOPES, Envelope
from lakeidx.landing.cdc.events import at_path, payload_of, rows_in
from lakeidx.landing.cdc.reader import without_tombstones
from lakeidx.landing.cdc.source_tables import name_of_table, names_by_arrow
from lakeidx.landing.cdc.source_types import type_of_ddl, type_of_dms
from lakeidx.landing.text.compressed import open_plain
from lakeidx.landing.text.json_lines import BLOCK_BYTES, filled_lines, line_blocks, parse_line, shown_text
from lakeidx.landing.text.json_values import parse_json, type_of_value
from lakeidx.landing.types import BadLine
from lakeidx.storage.base import ObjectStore
from lakeidx.types import DataType
from lakeidx.types.widening import is_widening

#: Where a message of a row has the names of the primary key's columns.
_ROW_KEYS = {"canal": "pkNames", "maxwell": "primary_key_columns", "ogg": "primary_keys"}
#: Types by name, None where a column's is not told.
_Columns = dict[str, DataType | None]
_MYSQL_TYPES = re.compile(rb'"mysqlType"\s*:\s*(\{[^}]*\})')


@dataclass(slots=True)
class TableDef:
    """Knowledge of one table of the source.

    columns  declared types by name, in the order of the source; of several declarations the widest
    keys     columns of the primary key
    seen     types that values of the first rows have, for keys that nothing declares
    always   columns that every declaration, and the first row before one, has; None before the first
    """

    columns: dict[str, DataType] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    seen: dict[str, DataType] = field(default_factory=dict)
    always: set[str] | None = None

    def add(self, columns: Mapping[str, DataType | None], keys: tuple[str, ...] = ()) -> None:
        """Add a later declaration; one that holds no more than what is known changes no type.

        columns   None for one whose type is not told
        """
        for name, t in columns.items():
            if t is not None:
                known = self.columns.get(name, t)
                self.columns[name] = known if is_widening(t, known) else t
        self.keys = keys or self.keys
        self.always = {*columns} if self.always is None else self.always & columns.keys()


def _declare_rows(found: TableDef, block: bytes, envelope: Envelope) -> None:
    """Add what the messages of one table's rows declare."""
    if envelope.name == "debezium":
        for run in split_runs(block):
            if run.columns:
                found.add({n: c.paimon_type() for n, c in run.columns.items()})
    if envelope.declared is not None:
        for text in dict.fromkeys(_MYSQL_TYPES.findall(block)):
            types = _parsed(text)
            found.add({n: type_of_ddl(t) for n, t in types.items() if isinstance(t, str)})
    if found.keys and found.columns:
        return
    first = _parsed(next((line for line in block.split(b"\n", 1000) if line.strip()), b""))
    found.keys = found.keys or _texts(first.get(_ROW_KEYS.get(envelope.name, "")))
    for path in (envelope.before, envelope.after):
        for row in rows_in(at_path(first, path)):
            found.seen |= {n: type_of_value(v) for n, v in row.items() if v is not None and n not in found.seen}
            if found.always is None and path == envelope.after:
                found.always = {*row}


def _table_defs(message: Mapping[str, Any], envelope: Envelope) -> Iterator[tuple[str, _Columns, tuple[str, ...]]]:
    """Return the tables that a message of DDL defines: whole name, types of columns, primary key."""
    message = payload_of(message)
    if envelope.name == "debezium":
        oracle = at_path(message, ("source", "connector")) == "oracle"
        for change in message.get("tableChanges") or ():
            table = at_path(change, ("table",))
            if isinstance(table, dict):
                name, columns = str(change.get("id", "")).replace('"', ""), _objects(table.get("columns"))
                types: _Columns = {str(c.get("name")): _of_change(c, oracle=oracle) for c in columns}
                yield name, types, _texts(table.get("primaryKeyColumnNames"))
    elif envelope.name == "maxwell" and isinstance(table := message.get("def"), dict):
        yield name_of_table(message, envelope), _of_maxwell(table), _texts(table.get("primary-key"))
    elif envelope.name == "dms-json" and isinstance(table := at_path(message, ("control", "table-def")), dict):
        described = table.get("columns")
        found = described.items() if isinstance(described, dict) else ()
        types = {str(n): type_of_dms(c) for n, c in found if isinstance(c, dict)}
        yield name_of_table(message, envelope), types, _texts(table.get("primary-key"))


def _of_change(column: Mapping[str, Any], *, oracle: bool) -> DataType:
    word = str(column.get("typeName", ""))
    if oracle and word.upper() == "DATE":
        # It has a time of day, which Debezium counts in milliseconds.
        return type_of_ddl("datetime(3)")
    if word.upper() == "TIME":
        # Without a schema part the unit of its numbers is not known.
        return type_of_ddl("bigint")
    sizes = [str(column[n]) for n in ("length", "scale") if isinstance(column.get(n), int)]
    return type_of_ddl(f"{word}({','.join(sizes)})" if sizes and "(" not in word else word)


def _of_maxwell(table: Mapping[str, Any]) -> _Columns:
    columns: _Columns = {}
    for column in _objects(table.get("columns")):
        word = str(column.get("type", ""))
        if word in ("decimal", "numeric"):
            # Its definition does not tell how many digits: the values say what it holds.
            columns[str(column.get("name"))] = None
            continue
        sign = " unsigned" if column.get("signed") is False else ""
        columns[str(column.get("name"))] = type_of_ddl(f"{word}({column.get('column-length', '')}){sign}")
    return columns


def _objects(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        value = parse_json(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return {}
    return dict(payload_of(value)) if isinstance(value, dict) else {}


#: Ending of a part.
PART = ".jsonl.zst"


@dataclass(slots=True)
class SplitTable:
    """One table of a feed.

    messages  of its rows; of a table that was not wanted they are only counted
    known     what is declared of it
    """

    messages: int = 0
    known: TableDef = field(default_factory=TableDef)


@dataclass(slots=True)
class FeedSplit:
    """Content of a feed.

    tables    by whole name
    skipped   messages that are no rows, by what they are
    bad       lines of the block that is read that are of no table
    """

    tables: dict[str, SplitTable] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    bad: list[BadLine] = field(default_factory=list)

    def table(self, name: str) -> SplitTable:
        """Return a table, a new one where it was not known."""
        return self.tables.setdefault(name, SplitTable())


def split_feed(
    store: ObjectStore,
    path: str,
    form: str,
    wanted: Callable[[str], bool],
    part_of: Callable[[str], str],
    out: ObjectStore,
    reject: Callable[[Sequence[BadLine]], None],
) -> FeedSplit:
    """Read a feed once, and write a part for each table that is wanted.

    form      format of the messages
    part_of   path of a table's part in `out`
    reject    gets the lines that are of no table
    errors    NotFoundError; InvalidInputError for an empty file; CorruptFileError for damaged compression
    """
    envelope, found, line = ENVELOPES[form], FeedSplit(), 1
    if store.size(path) == 0:
        raise InvalidInputError("the landing file is empty (0 bytes)", path=path)
    with ExitStack() as opened, open_plain(store, path) as source:
        parts: dict[str, _Part] = {}
        for block in line_blocks(source, BLOCK_BYTES):
            text, tombstones = without_tombstones(block)
            if tombstones:
                found.skipped["tombstones"] += tombstones
            lines = text.split(b"\n")[:-1]
            for name, numbers in _by_table(text, lines, line, envelope, found).items():
                table = found.table(name)
                table.messages += len(numbers)
                if not wanted(name):
                    continue
                if name not in parts:
                    sink = opened.enter_context(out.open_output(part_of(name)))
                    parts[name] = _Part(opened.enter_context(pa.CompressedOutputStream(sink, "zstd")))
                mine = [b""] * len(lines)
                for i in numbers:
                    mine[i] = lines[i]
                _declare_rows(table.known, b"\n".join(lines[i] for i in numbers) + b"\n", envelope)
                parts[name].write(mine, line)
            line += len(lines)
            reject(found.bad)
            found.bad.clear()
    return found


@dataclass(slots=True)
class _Part:
    """A part that is written; `line`: the next one of it."""

    sink: Any
    line: int = 1

    def write(self, lines: list[bytes], first: int) -> None:
        self.sink.write(b"\n" * (first - self.line) + b"\n".join(lines) + b"\n")
        self.line = first + len(lines)


def _by_table(
    text: bytes, lines: list[bytes], first: int, envelope: Envelope, found: FeedSplit
) -> Mapping[str, list[int]]:
    """Return the lines of each table, numbered from 0; count what is no row, and keep what is of no table.

    first   number of the first line in the feed
    """
    filled = filled_lines(text)
    found_names = names_by_arrow(text, envelope, (*envelope.codes, *envelope.truncates))
    names = [None] * len(filled) if found_names is None else found_names.to_pylist()
    out: dict[str, list[int]] = {}
    for i, name in zip(filled.tolist(), names, strict=True):
        place = name or _place(lines[i], first + i, envelope, found)
        if place:
            out.setdefault(place, []).append(i)
    return out


def _place(raw: bytes, number: int, envelope: Envelope, found: FeedSplit) -> str:
    """Return the table that a line is of; "" for one that is none's row, which is counted or kept as bad."""
    if not raw.strip():
        return ""
    value = parse_line(raw, number)
    if isinstance(value, BadLine):
        found.bad.append(value)
        return ""
    message = payload_of(value)
    op, name = at_path(message, envelope.op), name_of_table(message, envelope)
    words = dict(envelope.skipped)
    word = words.get(op) if isinstance(op, str) else next((w for n, w in envelope.skipped_by if n in message), None)
    if word is not None:
        found.skipped[word] += 1
        for defined, columns, keys in _table_defs(json.loads(raw), envelope):
            found.table(defined).known.add(columns, keys)
        return ""
    if not name:
        found.bad.append(BadLine(number, "the message does not say of which table it is", shown_text(raw)))
    return name
