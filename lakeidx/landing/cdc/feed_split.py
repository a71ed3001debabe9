"""Split of a feed of many tables into one file of messages for each, in one read.

A part has the lines of its table where the feed has them, and blank lines in place of the others: a rejected row is named by its
line in the feed. Blank lines cost next to nothing in a compressed file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.errors import InvalidInputError
from lakeidx.landing.cdc.envelopes import ENVELOPES, Envelope
from lakeidx.landing.cdc.events import at_path, parse_fields, payload_of
from lakeidx.landing.cdc.reader import without_tombstones
from lakeidx.landing.cdc.source_tables import joined_names, name_of_table
from lakeidx.landing.cdc.table_defs import TableDef, declare_rows, table_defs
from lakeidx.landing.text.compressed import open_plain
from lakeidx.landing.text.json_lines import BLOCK_BYTES, filled_lines, line_blocks, parse_line, shown_text
from lakeidx.landing.types import BadLine
from lakeidx.storage.base import ObjectStore

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
                declare_rows(table.known, b"\n".join(lines[i] for i in numbers) + b"\n", envelope)
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
    names = _names_by_arrow(text, envelope)
    if names is None:
        names = [None] * len(filled)
    out: dict[str, list[int]] = {}
    for i, name in zip(filled.tolist(), names, strict=True):
        place = name or _place(lines[i], first + i, envelope, found)
        if place:
            out.setdefault(place, []).append(i)
    return out


def _names_by_arrow(text: bytes, envelope: Envelope) -> list[str | None] | None:
    """Return the tables of all messages of rows, None for other lines; None when Arrow cannot read the block."""
    found = parse_fields(text, [envelope.op, *envelope.tables])
    if found is None:
        return None
    ops = pa.array([*envelope.codes, *envelope.truncates])
    names: list[str | None] = pc.if_else(
        pc.is_in(found[0], ops), joined_names(found[1:]), pa.scalar(None, pa.string())
    ).to_pylist()
    return names


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
        for defined, columns, keys in table_defs(json.loads(raw), envelope):
            found.table(defined).known.add(columns, keys)
        return ""
    if not name:
        found.bad.append(BadLine(number, "the message does not say of which table it is", shown_text(raw)))
    return name
