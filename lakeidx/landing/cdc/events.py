"""Events of a block of messages, read by Arrow's JSON reader: one row of each column per event.

Blocks in which anything is out of the ordinary (an unknown operation, a row that is missing, mixed spellings) are left to
`lakeidx.landing.cdc.reader`, which says for every line what is wrong with it.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson
from numpy.typing import NDArray

from lakeidx.landing.cdc.connect_schema import ConnectColumn, Run
from lakeidx.landing.cdc.encodings import json_type_of, newest_ms
from lakeidx.landing.cdc.envelopes import DELETE, INSERT, UPDATE, Envelope, Path
from lakeidx.landing.cdc.source_types import type_of_ddl
from lakeidx.landing.cdc.target import ChangeTarget
from lakeidx.landing.new_columns import grows
from lakeidx.landing.text.json_lines import filled_lines, json_type, marked, nulls_of, written_nulls
from lakeidx.landing.text.json_values import type_of_values
from lakeidx.landing.text.utf8 import is_utf8
from lakeidx.landing.types import BadLine
from lakeidx.types import TIMESTAMP_ROOTS, DataType, Root

#: Text that Debezium writes for a value it could not read (TOAST), and its base64.
UNAVAILABLE = "__debezium_unavailable_value"
_UNAVAILABLE_BYTES = (UNAVAILABLE.encode(), b"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
_EXAMPLE_LINES = 20


@dataclass(slots=True)
class Events:
    """Changes of rows in the order of their messages.

    codes          INSERT, UPDATE, DELETE
    after, before  columns of the row after and before the change, as JSON has them
    said           of the row before the change only what the message itself has, null elsewhere
    has_before     whether there is a row before the change
    absent         of the row after the change, or of that which a delete has: columns it does not have
    absent_before  the same of the row before the change
    order          columns that get the source's order
    lines          line of each event
    bad            lines that are no events
    skipped        messages that are no rows, by what they are
    newest         newest time of the source, epoch ms
    extra          types of columns that the table does not have, or has narrower
    """

    codes: NDArray[np.int8]
    after: dict[str, pa.Array]
    before: dict[str, pa.Array]
    said: dict[str, pa.Array]
    has_before: NDArray[np.bool_]
    order: dict[str, pa.Array]
    lines: NDArray[np.int64]
    bad: list[BadLine] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    newest: int | None = None
    extra: dict[str, DataType] = field(default_factory=dict)
    absent: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    absent_before: dict[str, NDArray[np.bool_]] = field(default_factory=dict)


def read_events(run: Run, line: int, envelope: Envelope, target: ChangeTarget) -> Events | None:
    """Read a run of messages; None when they have to be read line by line.

    line   number of its first line
    """
    block = run.block
    if any(text in block for text in _UNAVAILABLE_BYTES):
        return None
    examples = _examples(block)
    wrapped = "payload" in examples[0] if examples else False
    if wrapped:
        examples = [e["payload"] for e in examples if isinstance(e.get("payload"), dict)]
    types = _image_types(examples, run.columns, envelope, target)
    if types is None or not examples:
        return None
    rows = _parse(block, _tree(examples, types, envelope, target), wrapped=wrapped, ignore=run.columns is not None)
    lines = filled_lines(block) + line
    if rows is None or rows.num_rows != len(lines):
        return None
    return _events(_message(rows, wrapped=wrapped), lines, run, envelope, target, wrapped=wrapped)


def _message(rows: pa.Table, *, wrapped: bool) -> pa.Array:
    message = rows.column("payload").combine_chunks() if wrapped else rows.to_struct_array().combine_chunks()
    return pa.concat_arrays(message.chunks) if isinstance(message, pa.ChunkedArray) else message


def _examples(block: bytes) -> list[dict[str, Any]]:
    found = []
    for text in block.split(b"\n", _EXAMPLE_LINES)[:_EXAMPLE_LINES]:
        if text.strip():
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                return []
            if not isinstance(value, dict):
                return []
            found.append(value)
    return found


def at_path(value: Any, path: Path) -> Any:
    """Return the value at a path of an object, None when the path ends earlier."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def payload_of(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message itself, without a schema part around it."""
    payload = value.get("payload")
    return payload if isinstance(payload, dict) else value


def rows_in(value: Any) -> list[dict[str, Any]]:
    """Return the rows of an image: an object is one row, a list several."""
    found = value if isinstance(value, list) else [value]
    return [row for row in found if isinstance(row, dict)]


def _image_types(
    examples: Sequence[Mapping[str, Any]],
    columns: Mapping[str, ConnectColumn] | None,
    envelope: Envelope,
    target: ChangeTarget,
) -> list[tuple[str, pa.DataType]] | None:
    images = [row for e in examples for p in (envelope.after, envelope.before) for row in rows_in(at_path(e, p))]
    out = []
    for f in target.fields:
        declared = columns.get(f.name) if columns is not None else None
        example = next((row[f.name] for row in images if row.get(f.name) is not None), None)
        if declared is not None and not f.type.is_nested:
            found = json_type_of(declared)
        elif _is_epoch(example, f.type) and envelope.name == "debezium":
            found = pa.int64()
        elif example is None and envelope.declared is not None and not f.type.is_nested:
            # Canal writes all values as text.
            found = pa.string()
        else:
            found = json_type(f.type, example)
        if found is None:
            return None
        out.append((f.name, found))
    return out


def _is_epoch(example: Any, wanted: DataType) -> bool:
    return isinstance(example, int) and (wanted.root is Root.DATE or wanted.root in TIMESTAMP_ROOTS)


def _tree(
    examples: Sequence[Mapping[str, Any]],
    types: Sequence[tuple[str, pa.DataType]],
    envelope: Envelope,
    target: ChangeTarget,
) -> dict[str, Any]:
    """Lay out the fields to read of a message: names to types, or to the fields inside."""
    image = pa.struct(list(types))
    tree: dict[str, Any] = {}
    _put(tree, envelope.op, pa.string())
    for path in (envelope.after, envelope.before):
        _put(tree, path, pa.list_(image) if envelope.many else image)
    for path in (envelope.time, *target.order.values()):
        example = next((v for e in examples if (v := at_path(e, path)) is not None), None)
        _put(tree, path, pa.string() if isinstance(example, str) else pa.int64())
    return tree


def _put(tree: dict[str, Any], path: Path, t: pa.DataType) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = t


def _struct(tree: Mapping[str, Any]) -> pa.DataType:
    return pa.struct([(n, _struct(t) if isinstance(t, dict) else t) for n, t in tree.items()])


def _parse(block: bytes, tree: dict[str, Any], *, wrapped: bool, ignore: bool) -> pa.Table | None:
    message = _struct(tree)
    schema = pa.schema([("payload", message)] if wrapped else list(message))
    try:
        found = pajson.read_json(
            io.BytesIO(block),
            read_options=pajson.ReadOptions(use_threads=False, block_size=max(len(block) + 1, 1 << 20)),
            # Columns that the table does not have show as what Arrow makes of them, unless a schema part names them.
            parse_options=pajson.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore" if ignore else "infer"
            ),
        )
    except pa.ArrowException:
        return None
    return found if is_utf8(found) else None


def parse_fields(block: bytes, paths: Sequence[Path]) -> list[pa.Array] | None:
    """Read the texts at some paths of messages, with and without a schema part around them, null where there is none.

    returns   by path a text for every line that is not empty; None when Arrow cannot, for example where one is no text
    """
    tree: dict[str, Any] = {}
    for path in paths:
        _put(tree, path, pa.string())
    found = _parse(block, {**tree, "payload": tree}, wrapped=False, ignore=True)
    if found is None or found.num_rows != len(filled_lines(block)):
        return None
    whole = _message(found, wrapped=False)
    return [pc.coalesce(_field_at(whole, path), _field_at(whole, ("payload", *path))) for path in paths]


def _field_at(values: pa.Array, path: Path) -> pa.Array | None:
    """Return what messages have at a path, null where it ends earlier; None where no message can have it."""
    for name in path:
        index = values.type.get_field_index(name) if pa.types.is_struct(values.type) else -1
        if index < 0:
            return None
        # Unlike `.field`, this is null where the struct is.
        values = pc.struct_field(values, index)
    return values


def _events(
    message: pa.Array, lines: NDArray[np.int64], run: Run, envelope: Envelope, target: ChangeTarget, *, wrapped: bool
) -> Events | None:
    skipping = dict(envelope.skipped)
    ops = _field_at(message, envelope.op)
    words = [*envelope.codes, *skipping]
    at = pc.index_in(ops, value_set=pa.array(words))
    if at.null_count:
        return None
    position = np.asarray(at)
    is_row = position < len(envelope.codes)
    skipped = Counter(skipping[words[i]] for i in position[~is_row].tolist())
    declared = _declared_types(message, envelope)
    if skipped:
        message, lines, position = message.filter(pa.array(is_row)), lines[is_row], position[is_row]
    newest = newest_ms(_field_at(message, envelope.time), envelope.time_unit)
    codes = np.array(list(envelope.codes.values()), dtype=np.int8)[position]
    images = _rows_of_messages(message, envelope)
    if images is None:
        return None
    after, before, parents = images
    codes, lines = codes[parents], lines[parents]
    has_after, has_before = (np.asarray(pc.is_valid(i)) for i in (after, before))
    deletes = codes == DELETE
    if envelope.deleted_in_after:
        if not has_after.all():
            return None
        has_before = np.where(deletes, has_after, has_before & (codes == UPDATE))
    elif (deletes & ~has_before).any() or (~deletes & ~has_after).any():
        return None
    has_before &= codes != INSERT
    if target.before_images and (~has_before & (codes == UPDATE)).any():
        return None
    columns = _before_columns(after, before, deletes, envelope, target, run.block)
    if columns is None:
        return None
    old, said = columns
    if any((has_before & np.asarray(pc.is_null(old[k]))).any() for k in target.keys if k in old):
        return None
    order: dict[str, pa.Array] = {n: _field_at(message, p) for n, p in target.order.items()}
    if any(v is None or v.null_count for v in order.values()):
        return None
    absent = _absent_columns(run.block, (after, before), is_row, deletes, envelope, target, wrapped=wrapped)
    if absent is None:
        return None
    return Events(
        codes, {n: _column(after, n) for n in target.names}, old, said, has_before,
        {n: v.take(pa.array(parents)) for n, v in order.items()}, lines, skipped=skipped, newest=newest,
        extra=extra_columns(_found_types(after, before, run.columns, declared), target, declared=bool(declared or run.columns)),
        absent=absent[0], absent_before=absent[1],
    )  # fmt: skip


def _rows_of_messages(message: pa.Array, envelope: Envelope) -> tuple[pa.Array, pa.Array, NDArray[np.int64]] | None:
    """Return rows after and before, and the message each is of; None when lists do not belong together."""
    after, before = _field_at(message, envelope.after), _field_at(message, envelope.before)
    if after is None or before is None:
        return None
    if not envelope.many:
        return after, before, np.arange(len(message))
    sizes = np.asarray(pc.fill_null(pc.list_value_length(after), 0)).astype(np.int64)
    old_sizes = np.asarray(pc.fill_null(pc.list_value_length(before), 0)).astype(np.int64)
    if (sizes == 0).any() or ((old_sizes > 0) & (old_sizes != sizes)).any():
        return None
    parents = np.repeat(np.arange(len(message)), sizes)
    within = np.arange(len(parents)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    there = old_sizes[parents] > 0
    place = np.where(there, (np.cumsum(old_sizes) - old_sizes)[parents] + within, 0)
    olds = pc.list_flatten(before).take(pa.array(place, pa.int64(), mask=~there))
    return pc.list_flatten(after), olds, parents


def _absent_columns(
    block: bytes,
    images: tuple[pa.Array, pa.Array],
    is_row: NDArray[np.bool_],
    deletes: NDArray[np.bool_],
    envelope: Envelope,
    target: ChangeTarget,
    *,
    wrapped: bool,
) -> tuple[dict[str, NDArray[np.bool_]], dict[str, NDArray[np.bool_]]] | None:
    """Find the columns that rows do not have: the row of each change, and the row before it; None: read line by line.

    images   rows after and before
    is_row   bool[messages]: those that are changes of rows
    """
    if not target.tells_absent:
        return {}, {}
    nulls = [{n: nulls_of(_column(image, n)) for n in target.names} for image in images]
    in_before = deletes & (not envelope.deleted_in_after)
    counts = np.ones(len(deletes), np.bool_) if target.before_images else ~deletes
    names = [n for n in target.names if (np.where(in_before, nulls[1][n], nulls[0][n]) & counts).any()]
    if names and b"null" in block:
        image = pa.struct([(marked(n), pa.bool_()) for n in names])
        tree: dict[str, Any] = {}
        for path in (envelope.after, envelope.before):
            _put(tree, path, pa.list_(image) if envelope.many else image)
        fields = _struct({"payload": tree} if wrapped else tree)
        found = written_nulls(block, pa.schema(list(fields)))
        marks = (
            None
            if found is None
            else _rows_of_messages(_message(found, wrapped=wrapped).filter(pa.array(is_row)), envelope)
        )
        if marks is None:
            return None
        for side, mark in zip(nulls, marks, strict=False):
            side.update((n, side[n] & nulls_of(_column(mark, marked(n)))) for n in names)
    return {n: np.where(in_before, nulls[1][n], nulls[0][n]) for n in names}, {n: nulls[1][n] for n in names}


def _column(image: pa.Array, name: str) -> pa.Array:
    return pc.struct_field(image, image.type.get_field_index(name))


def _before_columns(
    after: pa.Array,
    before: pa.Array,
    deletes: NDArray[np.bool_],
    envelope: Envelope,
    target: ChangeTarget,
    block: bytes,
) -> tuple[dict[str, pa.Array], dict[str, pa.Array]] | None:
    """Return the whole row before each change, and what the message has of it.

    None when the whole row is wanted, and a null in a list of what changed may mean null or unchanged
    """
    if envelope.partial and target.before_images:
        images = re.escape(envelope.before[-1].encode())
        if re.search(rb'"' + images + rb'"\s*:\s*[\[{][^\]}]*\bnull\b', block):
            return None
    gone = pa.array(deletes)
    out, said = {}, {}
    for name in target.names:
        new, old = _column(after, name), _column(before, name)
        whole = pc.coalesce(old, new) if envelope.partial else old
        out[name] = pc.if_else(gone, new, whole) if envelope.deleted_in_after else whole
        said[name] = pc.if_else(gone, new, old) if envelope.partial and target.check_before else out[name]
    return out, said


def _declared_types(message: pa.Array, envelope: Envelope) -> dict[str, DataType]:
    """Return the types of the source's DDL, of the first message that has them."""
    values = None if envelope.declared is None else _field_at(message, (envelope.declared,))
    if values is None or not pa.types.is_struct(values.type):
        return {}
    out = {}
    for i, f in enumerate(values.type):
        texts = pc.struct_field(values, i).drop_null()
        if len(texts) and pa.types.is_string(texts.type):
            out[f.name] = type_of_ddl(texts[0].as_py())
    return out


def _found_types(
    after: pa.Array, before: pa.Array, columns: Mapping[str, ConnectColumn] | None, declared: Mapping[str, DataType]
) -> dict[str, DataType]:
    """Return the types of all columns that messages have."""
    if columns is not None:
        return {n: c.paimon_type() for n, c in columns.items()}
    found = {f.name: f.type for image in (before, after) for f in image.type}
    return {n: declared.get(n) or type_of_values(t) for n, t in found.items()}


def extra_columns(found: Mapping[str, DataType], target: ChangeTarget, *, declared: bool) -> dict[str, DataType]:
    """Return the columns the table does not have, and with `widen` those it has narrower than the source declares them."""
    mine = {f.name: f.type for f in target.fields}
    out = {}
    for name, t in found.items():
        if name not in mine:
            if not target.ignore_extra and name not in target.order:
                out[name] = t
        elif declared and target.merge_schema == "widen" and name not in target.keys and grows(mine[name], t):
            out[name] = t
    return out
