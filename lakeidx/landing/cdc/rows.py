"""Events to rows with kinds, a whole block at once.

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

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.landing.cdc.connect_schema import Run
from lakeidx.landing.cdc.encodings import decode, order_values
from lakeidx.landing.cdc.envelopes import DELETE, INSERT, UPDATE, Envelope
from lakeidx.landing.cdc.events import Events
from lakeidx.landing.cdc.target import ChangeTarget
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.landing.missing_columns import COMPLETING
from lakeidx.landing.types import BeforeImages, Piece
from lakeidx.types import Field


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
