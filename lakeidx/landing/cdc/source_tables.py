"""Choice of messages by their table of the source: one, or those that are chosen, and no other.

A feed of several tables would put rows of all into one table by their keys. A name that is chosen is a message's whole name
(``shop.customers``, ``shopdb.public.customers``) or its end (``public.customers``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.landing.cdc.connect_schema import Run
from lakeidx.landing.cdc.envelopes import Envelope
from lakeidx.landing.cdc.events import at_path, parse_fields, payload_of
from lakeidx.landing.changes import is_of_source
from lakeidx.landing.text.json_lines import filled_lines, shown_text
from lakeidx.landing.types import BadLine


@dataclass(frozen=True, slots=True)
class Chosen:
    """Lines of the chosen tables; blank ones stand in place of the others, so that lines keep their numbers.

    tables   of changes among the lines
    others   changes of other tables
    bad      changes that do not say their table
    """

    run: Run
    tables: frozenset[str] = frozenset()
    others: int = 0
    bad: tuple[BadLine, ...] = ()


def choose_lines(run: Run, line: int, envelope: Envelope, source: Sequence[str]) -> Chosen:
    """Choose the lines of a run.

    line     number of its first line
    source   names of the chosen tables; none: all lines are
    """
    lines = filled_lines(run.block)
    names = names_by_arrow(run.block, envelope, envelope.codes)
    if names is None:
        names = _names_by_line(run, lines, envelope)
    known = frozenset(n for n in names.unique().to_pylist() if n)
    if not source:
        return Chosen(run, known)
    mine = frozenset(n for n in known if is_of_source(n, source))
    texts = run.block.split(b"\n")
    other = np.asarray(pc.is_in(names, pa.array(sorted(known - mine), pa.string())))
    unnamed = np.asarray(pc.fill_null(pc.equal(names, ""), False))
    reason = "source: the message does not say of which table it is"
    bad = tuple(BadLine(line + int(i), reason, shown_text(texts[i])) for i in lines[unnamed])
    for i in lines[other | unnamed].tolist():
        texts[i] = b""
    return Chosen(replace(run, block=b"\n".join(texts)), mine, int(other.sum()), bad)


def _name_of(line: bytes, envelope: Envelope) -> str | None:
    """Return the name of the table that a line has a change of, "" when it does not say; None for a line that has none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    message = payload_of(value)
    op = at_path(message, envelope.op)
    if not isinstance(op, str) or op not in envelope.codes:
        return None
    return name_of_table(message, envelope)


def name_of_table(message: Any, envelope: Envelope) -> str:
    """Return the whole name of the table that a message is of, "" when it does not say."""
    return ".".join(part for p in envelope.tables if isinstance(part := at_path(message, p), str) and part)


def _names_by_line(run: Run, lines: NDArray[np.int64], envelope: Envelope) -> pa.Array:
    texts = run.block.split(b"\n")
    return pa.array([_name_of(texts[i], envelope) for i in lines.tolist()], pa.string())


def names_by_arrow(block: bytes, envelope: Envelope, ops: Iterable[str]) -> pa.Array | None:
    """Return the tables of messages of some operations, "" where they do not say, null for others; None: Arrow cannot read them."""
    found = parse_fields(block, [envelope.op, *envelope.tables])
    if found is None:
        return None
    return pc.if_else(pc.is_in(found[0], pa.array(list(ops))), _joined_names(found[1:]), pa.scalar(None, pa.string()))


def _joined_names(parts: Sequence[pa.Array]) -> pa.Array:
    """Join the parts of tables' names by dots, "" where there is none."""
    nothing = pa.scalar(None, pa.string())
    filled = [pc.if_else(pc.equal(p, ""), nothing, p) for p in parts]
    # Arrow leaves rows out whose parts are all null, so each row has one that is not.
    first = pa.array([""] * len(parts[0]), pa.string())
    joined = pc.binary_join_element_wise(first, *filled, ".", null_handling="skip")
    return pc.replace_substring_regex(joined, r"^\.", "")
