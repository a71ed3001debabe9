"""Events of a block of messages, read line by line: the error of a bad line is named, everything else is as by Arrow.

Values come as text, nested ones as JSON text. This is the scalar twin of `lakeidx.landing.cdc.events`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.landing.cdc.base64_bytes import decimals_of, decode_base64
from lakeidx.landing.cdc.connect_schema import VARIABLE_DECIMAL, ConnectColumn, Run
from lakeidx.landing.cdc.encodings import newest_ms
from lakeidx.landing.cdc.envelopes import DELETE, INSERT, UPDATE, Envelope
from lakeidx.landing.cdc.events import UNAVAILABLE, Events, at_path, extra_columns, rows_in
from lakeidx.landing.cdc.source_types import type_of_ddl
from lakeidx.landing.cdc.target import ChangeTarget
from lakeidx.landing.text.json_lines import parse_line, shown_text
from lakeidx.landing.text.json_values import json_text_of, type_of_value, wider_of_values
from lakeidx.landing.types import BadLine
from lakeidx.types import DataType, Root

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
