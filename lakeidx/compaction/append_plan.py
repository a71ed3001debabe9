"""What a compaction of an append table's bucket has to do: small files joined into larger ones, rows in the same order.

source   org.apache.paimon.append.AppendCompactCoordinator, BucketedAppendCompactManager, release 1.4.2. Unlike Java, which
         joins any small files of a table without buckets, lakeidx joins neighbours only: rows keep their order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lakeidx.compaction.pick import PickReason
from lakeidx.compaction.plan import CompactionTask, Rewrite
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.schema_file import TableSchema

_DEFAULT_TARGET_BYTES = 256 << 20
#: A file below this share of the target size is small.
_SMALL_SHARE = 0.7


def plan_append_compaction(
    files: Sequence[DataFileMeta], schema: TableSchema, *, full: bool, must_rewrite: Collection[str] = ()
) -> CompactionTask | None:
    """Plan the compaction of one bucket of an append table, or None when there is nothing to do.

    files          live data files of the bucket, any order
    full           join whatever has a small neighbour; else only `compaction.min.file-num` files and more
    must_rewrite   files with deletion vectors, rewritten by a full compaction even alone
    """
    options = schema.table_options
    target = options.target_file_size or _DEFAULT_TARGET_BYTES
    least = 2 if full else max(2, options.compaction_min_file_num)
    small = int(target * _SMALL_SHARE)
    ordered = sorted(files, key=lambda f: (f.min_sequence_number, f.creation_time_ms or 0, f.file_name))
    groups: list[list[DataFileMeta]] = [[]]
    size = 0
    for file in ordered:
        wanted = file.file_size < small or (full and file.file_name in must_rewrite)
        if not wanted or (groups[-1] and size >= target):
            groups.append([])
            size = 0
        if wanted:
            groups[-1].append(file)
            size += file.file_size
    steps = tuple(
        Rewrite(sections=((tuple(group),),), drop_delete=False)
        for group in groups
        if len(group) >= least or (full and any(f.file_name in must_rewrite for f in group))
    )
    if not steps:
        return None
    everything = sum(len(s.files) for s in steps) == len(files)
    reason = PickReason.FULL if full else PickReason.FILE_COUNT
    return CompactionTask(steps=steps, output_level=0, max_level=0, reason=reason, is_full=everything)
