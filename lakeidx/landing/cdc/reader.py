"""Reads landing files of change capture messages (one JSON object a line) in bounded pieces of rows with kinds.

Events of a block of messages, read line by line: the error of a bad line is named, everything else is as by Arrow.

Values come as text, nested ones as JSON text. This is the scalar twin of `lakeidx.landing.cdc.events`.

Events to rows with kinds, a whole block at once.

==================  =========================================================================
event               rows
==================  =========================================================================
insert              +I
update              +U; before it -U where the table wants rows before updates
update of the key   -D of the old key, +I of the new one
delete              -D
==================  =========================================================================
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.cdc.connect_schema import VARIABLE_DECIMAL, ConnectColumn, Run, split_runs
from lakeidx.landing.cdc.encodings import decimals_of, decode, decode_base64, newest_ms, order_values
from lakeidx.landing.cdc.envelopes import DELETE, ENVELOPES, INSERT, UPDATE, Envelope
from lakeidx.landing.cdc.events import UNAVAILABLE, Events, at_path, extra_columns, read_events, rows_in
from lakeidx.landing.cdc.op_column import read_with_op_column
from lakeidx.landing.cdc.source_tables import choose_lines
from lakeidx.landing.cdc.source_types import type_of_ddl
from lakeidx.landing.cdc.target import ChangeTarget, make_target
from lakeidx.landing.changes import OTHER_TABLES, refuse_tables
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.landing.missing_columns import COMPLETING
from lakeidx.landing.text.compressed import open_plain
from lakeidx.landing.text.json_lines import BLOCK_BYTES, halves, line_blocks, parse_line, shown_text
from lakeidx.landing.text.json_values import json_text_of, type_of_value, wider_of_values
from lakeidx.landing.text.shares import TextShare
from lakeidx.landing.types import BadLine, BeforeImages, LandingOptions, Piece, check_columns
from lakeidx.storage.base import ObjectStore
from lakeidx.types import DataType, Field, Root

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


_Row = Mapping[str, Any]
#: Code, row after, whole row before, what the message has of the row before.
_Event = tuple[int, _Row | None, _Row | None, _Row | None]


class _Skip(Exception):
    """A message that is no row, with what it is counted as."""


class _NoEvent(Exception):
    """A message that is none of the format, with what is wrong with it."""


def read_events_by_line(run: Run, line: int, envelope: Envelope, target: ChangeTarget) -> Events:
    """Read a run of messages line by line; see `lakeidx.landing.cdc.events.read_events`."""
    events: list[_Event] = []
    orders: list[list[Any]] = []
    lines: list[int] = []
    bad: list[BadLine] = []
    skipped: Counter[str] = Counter()
    times: list[str] = []
    found: dict[str, DataType] = {}
    for number, raw in enumerate(run.block.split(b"\n"), line):
        if not raw.strip():
            continue
        value = parse_line(raw, number)
        if isinstance(value, BadLine):
            bad.append(value)
            continue
        message = value["payload"] if isinstance(value.get("payload"), dict) else value
        try:
            mine = _events_of(message, envelope, target)
            order = [_order(message, path) for path in target.order.values()]
        except _Skip as skip:
            skipped[str(skip)] += 1
            continue
        except _NoEvent as reason:
            bad.append(BadLine(number, str(reason), shown_text(raw)))
            continue
        if at_path(message, envelope.time) is not None:
            times.append(str(at_path(message, envelope.time)))
        events += mine
        orders += [order] * len(mine)
        lines += [number] * len(mine)
        _note_types(found, mine, message, envelope)
    if run.columns is not None:
        found = {n: c.paimon_type() for n, c in run.columns.items()}
    nested = {f.name for f in target.fields if f.type.is_nested or f.type.root is Root.VARIANT}
    declared = run.columns is not None or envelope.declared is not None
    return Events(
        np.array([e[0] for e in events], dtype=np.int8),
        {n: _texts([after for _, after, _, _ in events], n, n in nested, run.columns) for n in target.names},
        {n: _texts([before for _, _, before, _ in events], n, n in nested, run.columns) for n in target.names},
        {n: _texts([said for _, _, _, said in events], n, n in nested, run.columns) for n in target.names},
        np.array([e[2] is not None for e in events], dtype=bool),
        {n: pa.array([o[i] for o in orders], pa.string()) for i, n in enumerate(target.order)},
        np.array(lines, dtype=np.int64),
        bad, skipped, newest_ms(pa.array(times, pa.string()), envelope.time_unit),
        extra_columns(found, target, declared=declared) if events else {},
        _absent([before if after is None else after for _, after, before, _ in events], target),
        _absent([before for _, _, before, _ in events], target),
    )  # fmt: skip


def _absent(rows: list[_Row | None], target: ChangeTarget) -> dict[str, NDArray[np.bool_]]:
    """Find the columns that rows do not have."""
    if not target.tells_absent:
        return {}
    return {n: np.array([row is None or n not in row for row in rows], dtype=bool) for n in target.names}


def _events_of(message: _Row, envelope: Envelope, target: ChangeTarget) -> list[_Event]:
    """Return the changes of a message.

    errors   _Skip for a message that is no row; _NoEvent
    """
    op = at_path(message, envelope.op)
    if op is None:
        for name, what in envelope.skipped_by:
            if name in message:
                raise _Skip(what)
        raise _NoEvent(f"no {envelope.name} message: it has no {'.'.join(envelope.op)}")
    if op in envelope.truncates:
        raise _NoEvent(
            f"op {op}: the source table was truncated, which landing files cannot express: overwrite the table with no rows"
        )
    if op not in envelope.codes:
        if op in dict(envelope.skipped):
            raise _Skip(dict(envelope.skipped)[op])
        raise _NoEvent(f"op {op!r} is not one of {', '.join(envelope.codes)}")
    code = envelope.codes[op]
    afters = rows_in(at_path(message, envelope.after))
    befores = rows_in(at_path(message, envelope.before))
    if envelope.many and befores and len(befores) != len(afters):
        raise _NoEvent(f"{len(afters)} rows after and {len(befores)} before the change")
    count = len(befores) if code == DELETE and not envelope.deleted_in_after else len(afters)
    if not count:
        side = envelope.before if code == DELETE and not envelope.deleted_in_after else envelope.after
        raise _NoEvent(f"op {op} without its row in {'.'.join(side)}{_HINT if code == DELETE else ''}")
    return [_event(op, code, _at(afters, i), _at(befores, i), envelope, target) for i in range(count)]


_HINT = ": have the source write rows before changes (REPLICA IDENTITY FULL, full row images)"


def _at(rows: list[dict[str, Any]], i: int) -> dict[str, Any] | None:
    return rows[i] if i < len(rows) else None


def _event(
    op: str, code: int, after: _Row | None, before: _Row | None, envelope: Envelope, target: ChangeTarget
) -> _Event:
    if code == DELETE and envelope.deleted_in_after:
        before, after = after, None
    hidden = [n for n in target.names if after is not None and _unavailable(after.get(n))]
    if hidden and not target.completes:
        raise _NoEvent(
            f"the source did not send the value of {', '.join(hidden)} ({UNAVAILABLE}){_HINT}, or complete rows from the "
            "table (missing = table)"
        )
    before, after = _sent(before), _sent(after)
    said = before
    if code == UPDATE and before is not None and after is not None and envelope.partial:
        before = {**after, **before}
    elif code == INSERT:
        before = None
    if code == UPDATE and target.before_images and before is None:
        raise _NoEvent(f"op {op} without the row before, which this table needs{_HINT}")
    if before is not None:
        lacking = [k for k in target.keys if k not in target.order and before.get(k) is None]
        if lacking:
            raise _NoEvent(f"before: the row before the change has no {', '.join(lacking)}, the table's key")
    return code, after, before, said


def _unavailable(value: Any) -> bool:
    """Return True for what stands in place of a value that was not sent; of an array it is the only element."""
    one = value[0] if isinstance(value, list) and len(value) == 1 else value
    return one in (UNAVAILABLE, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==") if isinstance(one, str) else False


def _sent(row: _Row | None) -> _Row | None:
    """Return a row without the columns whose values were not sent."""
    if row is None or not any(_unavailable(v) for v in row.values()):
        return row
    return {n: v for n, v in row.items() if not _unavailable(v)}


def _order(message: _Row, path: tuple[str, ...]) -> str:
    value = at_path(message, path)
    if value is None:
        raise _NoEvent(f"order: the message has no {'.'.join(path)}")
    return str(json_text_of(value, False))


def _note_types(found: dict[str, DataType], events: list[_Event], message: _Row, envelope: Envelope) -> None:
    declared = message.get(envelope.declared) if envelope.declared is not None else None
    for _, after, before, _ in events:
        for name, value in {**(before or {}), **(after or {})}.items():
            word = declared.get(name) if isinstance(declared, dict) else None
            if isinstance(word, str):
                found[name] = type_of_ddl(word)
            elif value is not None or name not in found:
                found[name] = wider_of_values(found.get(name), type_of_value(value))


def _texts(rows: list[_Row | None], name: str, nested: bool, columns: Mapping[str, ConnectColumn] | None) -> pa.Array:
    declared = None if columns is None else columns.get(name)
    values = [None if row is None else row.get(name) for row in rows]
    if declared is not None and declared.name == VARIABLE_DECIMAL:
        return pa.array([_decimal_text(v) for v in values], pa.string())
    return pa.array([json_text_of(v, nested) for v in values], pa.string())


def _decimal_text(value: Any) -> str | None:
    if not isinstance(value, dict) or not isinstance(value.get("value"), str):
        return json_text_of(value, True)
    try:
        return str(decimals_of(decode_base64(pa.array([value["value"]])), int(value.get("scale", 0)))[0].as_py())
    except (pa.ArrowInvalid, ValueError):
        return json_text_of(value, True)


def make_piece(
    events: Events, run: Run, first_line: int, envelope: Envelope, target: ChangeTarget, schema: Mapping[str, Field]
) -> Piece:
    """Make the rows of events, in their order, as a piece of a landing file.

    schema   all columns of the table by name
    """
    moved = _moved(events, target)
    old_row = (events.codes == DELETE) | moved
    if target.before_images:
        old_row |= (events.codes == UPDATE) & events.has_before
    new_row = events.codes != DELETE
    counts = old_row.astype(np.int64) + new_row
    event = np.repeat(np.arange(len(counts)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts) == np.arange(len(event))
    is_old = first & old_row[event]
    place = pa.array(event + is_old * len(counts))
    from_before, absent = _absent_rows(events, event, is_old, envelope, target)
    columns = {}
    for f in target.fields:
        filled = from_before.get(f.name)
        mine = place if filled is None else pa.array(event + (is_old | filled) * len(counts))
        both = pa.concat_arrays([_whole(events.after[f.name]), _whole(events.before[f.name])]).take(mine)
        declared = run.columns.get(f.name) if run.columns is not None else None
        columns[f.name] = decode(both, declared, f.type, envelope)
    for name, path in target.order.items():
        values = _whole(events.order[name]).take(pa.array(event))
        columns[name] = order_values(values, path[-1], envelope.time_unit, schema[name].type)
    kinds = np.where(
        is_old,
        np.where((events.codes == DELETE) | moved, "-D", "-U")[event],
        np.where((events.codes == INSERT) | moved, "+I", "+U")[event],
    )
    columns[KIND_COLUMN] = pa.array(kinds, pa.string())
    return Piece(
        pa.table(columns), first_line, events.lines[event], tuple(events.bad),
        skipped=dict(events.skipped), newest_ms=events.newest, extra=events.extra,
        images=_images(events, run, counts, envelope, target) if target.check_before else None,
        absent=absent, changes=event if len(event) > len(counts) else None,
    )  # fmt: skip


def _absent_rows(
    events: Events, event: NDArray[np.int64], is_old: NDArray[np.bool_], envelope: Envelope, target: ChangeTarget
) -> tuple[dict[str, NDArray[np.bool_]], dict[str, NDArray[np.bool_]]]:
    """Return by column which rows get it from the row before the change, and which do not have it.

    A message that has whole rows leaves out of the row after an update what has not changed; one that has only what changed in
    the row before leaves it out of both.
    """
    filled, absent = {}, {}
    updates = (events.codes == UPDATE) & events.has_before
    for name, gone in events.absent.items():
        before = events.absent_before[name]
        if target.missing in COMPLETING and not envelope.partial:
            fills = (gone & ~before & updates)[event] & ~is_old
            filled[name] = fills
        else:
            fills = np.zeros(len(event), dtype=np.bool_)
        of_old = np.where(updates, before & gone if envelope.partial else before, gone)
        mine = np.where(is_old, of_old[event], gone[event]) & ~fills
        if mine.any():
            absent[name] = mine
    return filled, absent


def _images(
    events: Events, run: Run, counts: NDArray[np.int64], envelope: Envelope, target: ChangeTarget
) -> BeforeImages | None:
    """Return what the messages have of the rows before changes; None when they have nothing."""
    chosen = np.flatnonzero(events.has_before)
    if not len(chosen):
        return None
    values = {}
    for f in target.fields:
        found = _whole((events.before if f.name in target.keys else events.said)[f.name]).take(pa.array(chosen))
        declared = run.columns.get(f.name) if run.columns is not None else None
        values[f.name] = decode(found, declared, f.type, envelope)
    return BeforeImages((np.cumsum(counts) - counts)[chosen], counts[chosen], pa.table(values))


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _moved(events: Events, target: ChangeTarget) -> NDArray[np.bool_]:
    """Return bool[n]: updates that change the key."""
    out: NDArray[np.bool_] = np.zeros(len(events.codes), dtype=np.bool_)
    updates = (events.codes == UPDATE) & events.has_before
    if updates.any():
        for key in target.keys:
            if key in events.before:
                differs = pc.not_equal(events.before[key], events.after[key])
                out |= np.asarray(pc.fill_null(differs, False))
    out &= updates
    return out
