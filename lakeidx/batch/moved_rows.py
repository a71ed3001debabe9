"""Rows of a batch whose keys live in another partition: the file from assignment to the write stage, and the rows that are written.

Next to the targets that a task gave to rows of part i (-1 = the row is dropped; `lakeidx.batch.target_files`) lies
``moves-<i>-<task>.arrow``, with one line per delete that the task adds:

=========  ======  ====================================================================================================
column     type    content
=========  ======  ====================================================================================================
row        int32   the delete comes just before this row of the part, and carries its values; ascending
target     int32   (partition, bucket) that the delete goes to
=========  ======  ====================================================================================================

In a batch with moves every row gets the partition columns of the target it goes to: deletes go to the old partition, and
where a merge engine keeps a key in its partition the new row is turned into one of that partition.

source   org.apache.paimon.crosspartition.ExistingProcessor and its three processors, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.artifacts import Target
from lakeidx.batch.target_files import as_numbered, read_columns, share_path, write_columns
from lakeidx.codec.gather import take_rows
from lakeidx.codec.values import internal_to_arrow
from lakeidx.data.row_kinds import DELETE
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.storage.base import ObjectStore
from lakeidx.table.view import decode_partition_dict
from lakeidx.tasks.in_parallel import in_parallel

_SCHEMA = pa.schema([pa.field("row", pa.int32(), nullable=False), pa.field("target", pa.int32(), nullable=False)])


@dataclass(frozen=True, slots=True, eq=False)
class TargetPartitions:
    """The partitions of targets.

    codes        int32[targets]
    partitions   partition bytes by code
    """

    codes: NDArray[np.int32]
    partitions: tuple[bytes, ...]

    @classmethod
    def of(cls, targets: Sequence[Target]) -> TargetPartitions:
        """Assign numbers to the partitions of targets."""
        numbers: dict[str, int] = {}
        codes = [numbers.setdefault(t.partition, len(numbers)) for t in targets]
        return cls(np.array(codes, np.int32), tuple(bytes.fromhex(p) for p in numbers))


def write_moves(
    store: ObjectStore,
    directory: str,
    part: int,
    rows: NDArray[np.int32],
    targets: NDArray[np.int32],
    task: int,
) -> None:
    """Write the deletes that a part adds: int32[d] rows, ascending, and int32[d] targets, which the task has numbered."""
    write_columns(store, share_path(_path(directory, part), task), [rows, targets], _SCHEMA)


def read_moves(
    store: ObjectStore, directory: str, part: int, tasks: Sequence[int]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Read what `write_moves` wrote, of all tasks that placed rows of the part."""
    path = _path(directory, part)

    def read(task: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        (rows, own), _ = read_columns(store, share_path(path, task), _SCHEMA)
        return rows, as_numbered(store, path, task, own)

    found = in_parallel(read, tasks)
    rows, targets = (np.concatenate([np.zeros(0, np.int32), *(pair[i] for pair in found)]) for i in (0, 1))
    order = np.argsort(rows, kind="stable")
    return rows[order], targets[order]


def move_rows(
    rows: pa.Table,
    targets: NDArray[np.int32],
    deletes: tuple[NDArray[np.int32], NDArray[np.int32]],
    places: TargetPartitions,
    schema: TableSchema,
) -> tuple[pa.Table, NDArray[np.int32]]:
    """Build the rows of a part as they are written: without dropped rows, with deletes added, with the partition columns of
    their targets.

    targets   int32[n], -1 = dropped
    deletes   (int32[d] rows, int32[d] targets)
    returns   m rows with column ``_VALUE_KIND``, and int32[m] their targets
    """
    kept = np.flatnonzero(targets >= 0)
    delete_rows, delete_targets = deletes
    source = np.concatenate([kept, delete_rows.astype(np.int64)])
    is_delete = np.repeat([False, True], [len(kept), len(delete_rows)])
    # A delete sorts before the row it comes with.
    order = np.argsort(2 * source + ~is_delete, kind="stable")
    source, is_delete = source[order], is_delete[order]
    goes = np.concatenate([targets[kept], delete_targets])[order].astype(np.int32)
    out = take_rows(rows.combine_chunks(), source)
    kinds = np.zeros(len(source), np.int8)
    if VALUE_KIND in out.column_names:
        kinds = out.column(VALUE_KIND).to_numpy().astype(np.int8)
        out = out.drop_columns([VALUE_KIND])
    kinds = np.where(is_delete, np.int8(DELETE), kinds)
    for name, column in _partition_columns(goes, places, schema).items():
        place = out.schema.get_field_index(name)
        out = out.set_column(place, out.schema.field(place), column)
    return out.append_column(VALUE_KIND, pa.array(kinds, pa.int8())), goes


def _partition_columns(goes: NDArray[np.int32], places: TargetPartitions, schema: TableSchema) -> dict[str, pa.Array]:
    """Partition columns of rows by their targets."""
    values = [decode_partition_dict(partition, schema) for partition in places.partitions]
    indices = pa.array(places.codes[goes])
    return {
        name: internal_to_arrow([v[name] for v in values], schema.field(name).type).take(indices)
        for name in schema.partition_keys
    }


def _path(directory: str, part: int) -> str:
    return f"{directory}/moves-{part:05d}.arrow"
