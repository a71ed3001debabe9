"""Level of the files of an overwrite: the top one, where they do not overlap and hold no deletes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.table.commit.compaction_conflicts import key_reader

log = logging.getLogger(__name__)


def upgrade_overwrite(entries: Sequence[ManifestEntry], schema: TableSchema) -> tuple[ManifestEntry, ...]:
    """Move the new files of each bucket to the top level, where they do not overlap and have no deletes.

    entries   ADD entries of an overwrite, of any number of buckets
    returns   the same files, in order
    """
    files = [e for e in entries if e.bucket >= 0]
    if not schema.primary_keys or not schema.table_options.overwrite_upgrade or any(e.file.level > 0 for e in entries):
        return tuple(entries)
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in files:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    top = schema.table_options.max_levels - 1
    stay = {place for place, found in buckets.items() if not _can_go_up(found, schema)}
    if stay and (schema.table_options.deletion_vectors_enabled or schema.table_options.merge_engine == "first-row"):
        log.warning(
            "rows of %d overwritten buckets are shown after the next compaction: their files overlap", len(stay)
        )
    return tuple(
        e
        if (e.partition, e.bucket) not in buckets or (e.partition, e.bucket) in stay
        else replace(e, file=replace(e.file, level=top))
        for e in entries
    )


def _can_go_up(entries: Sequence[ManifestEntry], schema: TableSchema) -> bool:
    if any(e.file.delete_row_count != 0 for e in entries):
        return False
    read = key_reader(schema.key_types)
    ordered = sorted(entries, key=lambda e: read(e.file.min_key))
    return all(read(a.file.max_key) < read(b.file.min_key) for a, b in pairwise(ordered))
