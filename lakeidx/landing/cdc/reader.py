"""Reads landing files of change capture messages (one JSON object a line) in bounded pieces of rows with kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.cdc.connect_schema import Run, split_runs
from lakeidx.landing.cdc.envelopes import ENVELOPES, Envelope
from lakeidx.landing.cdc.events import Events, read_events
from lakeidx.landing.cdc.events_by_line import read_events_by_line
from lakeidx.landing.cdc.op_column import read_with_op_column
from lakeidx.landing.cdc.rows import make_piece
from lakeidx.landing.cdc.source_tables import choose_lines
from lakeidx.landing.cdc.target import ChangeTarget, make_target
from lakeidx.landing.changes import OTHER_TABLES, refuse_tables
from lakeidx.landing.text.compressed import open_plain
from lakeidx.landing.text.json_lines import BLOCK_BYTES, halves, line_blocks
from lakeidx.landing.text.shares import TextShare
from lakeidx.landing.types import LandingOptions, Piece, check_columns
from lakeidx.storage.base import ObjectStore

#: Lines that are not worth another try in halves.
_FEW_LINES = 256
_TOMBSTONE = re.compile(rb'\n[ \t]*(null|\{\s*"schema"\s*:\s*null\s*,\s*"payload"\s*:\s*null\s*\})[ \t]*(?=\n)')


def read_changes(
    store: ObjectStore,
    path: str,
    schema: TableSchema,
    options: LandingOptions,
    *,
    block_bytes: int = BLOCK_BYTES,
    share: TextShare | None = None,
) -> Iterator[Piece]:
    """Read the pieces of a landing file of changes, in file order.

    share    of a text file: what is read of it
    errors   NotFoundError; InvalidInputError for an empty file, and for columns that the table does not have while
             `merge_schema` is ``refuse``, and for changes of several tables of the source
    """
    if options.format not in ENVELOPES:
        yield from read_with_op_column(store, path, schema, options, share)
        return
    envelope = ENVELOPES[options.format]
    target = make_target(schema, options, path)
    check_columns([], schema.fields, options, path, complete=False)
    try:
        size = store.size(path)
    except NotFoundError:
        raise NotFoundError("the landing file does not exist", path=path) from None
    if size == 0:
        raise InvalidInputError("the landing file is empty (0 bytes)", path=path)
    line = 1 if share is None else share.line
    tables: frozenset[str] = frozenset()
    with open_plain(store, path, share) as source:
        for block in line_blocks(source, block_bytes, begins=line == 1):
            text, tombstones = without_tombstones(block)
            for run in split_runs(text):
                chosen = choose_lines(run, line, envelope, options.source)
                tables |= chosen.tables
                refuse_tables(tables, options.source, path=path)
                if chosen.others or chosen.bad:
                    skipped = {OTHER_TABLES: chosen.others} if chosen.others else {}
                    yield replace(_nothing(schema), skipped=skipped, bad_lines=chosen.bad)
                for part, first, events in _read_run(chosen.run, line, envelope, target):
                    piece = make_piece(events, part, first, envelope, target, schema.fields_by_name)
                    _refuse_extra(piece, options, path)
                    yield replace(piece, tables=chosen.tables)
                line += run.lines
            if tombstones:
                yield replace(_nothing(schema), skipped={"tombstones": tombstones})


def without_tombstones(block: bytes) -> tuple[bytes, int]:
    """Make lines of tombstones blank, and count them."""
    if b"null" not in block:
        return block, 0
    text, count = _TOMBSTONE.subn(b"\n", b"\n" + block)
    return text[1:], count


def _read_run(run: Run, line: int, envelope: Envelope, target: ChangeTarget) -> Iterator[tuple[Run, int, Events]]:
    """Read a run whole, or in halves where something in it is out of the ordinary: few lines are then read one by one.

    returns   parts of the run, the number of the first line of each, and its events
    """
    if not run.block.strip():
        return
    events = read_events(run, line, envelope, target)
    if events is None and run.lines > _FEW_LINES and not target.has_nested:
        for half in halves(run.block):
            part = replace(run, block=half, lines=half.count(b"\n"))
            yield from _read_run(part, line, envelope, target)
            line += part.lines
    else:
        yield run, line, events or read_events_by_line(run, line, envelope, target)


def _nothing(schema: TableSchema) -> Piece:
    return Piece(schema.arrow_schema.empty_table(), 1)


def _refuse_extra(piece: Piece, options: LandingOptions, path: str) -> None:
    if piece.extra and options.merge_schema == "refuse":
        shown = ", ".join(f"{name} {t}" for name, t in piece.extra.items())
        raise InvalidInputError(
            f"the messages have columns the table does not have: {shown}; add them to the table, let new columns be added "
            "(merge_schema: add, --merge-schema add) or be ignored (--ignore-extra-columns)",
            path=path,
        )
