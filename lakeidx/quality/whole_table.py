"""All rules over a whole table, some partitions at a time, so that memory follows the largest partition.

A run that was interrupted goes on where it was: with a checkpoint, a folder, what was said of each group of partitions stays
there until the run ends, and counts as long as the group's files are the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.file_index.options import indexed_columns
from lakeidx.format.schema.schema_file import BucketMode
from lakeidx.quality.file_index_answers import check_file_indexes
from lakeidx.quality.load import load_evidence
from lakeidx.quality.result import RuleResult, combine
from lakeidx.quality.verify import Limits, verify
from lakeidx.storage.base import ObjectStore
from lakeidx.table.entries import of_partitions
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import SnapshotView, load_view
from lakeidx.tasks.runner import Progress, Runner

#: Rows of the partitions that are looked at together, where there are several.
_ROWS_AT_ONCE = 50_000_000
#: Rules over the table as such: what the first group says of them counts.
_OF_THE_TABLE = ("snapshot_chain", "options_followed")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where the results of finished groups lie until the run ends.

    store    a store that reaches the folder
    folder   of this run alone
    """

    store: ObjectStore
    folder: str

    def read(self, state: str) -> list[RuleResult] | None:
        """Return what an interrupted run said of a group; None when it did not come to it, or the group has changed since.

        errors   CorruptFileError for a file that this class did not write
        """
        path = self._path(state)
        try:
            data = self.store.get(path)
        except NotFoundError:
            return None
        try:
            return [RuleResult.from_json(r) for r in json.loads(data)]
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptFileError(f"no results of a verification ({error}): remove the file", path=path) from error

    def write(self, state: str, results: Sequence[RuleResult]) -> None:
        """Keep what was said of a group."""
        self.store.put(self._path(state), json.dumps([r.to_json() for r in results], default=str).encode())

    def remove(self, states: Collection[str]) -> None:
        """Remove the results of groups."""
        self.store.delete_many([self._path(state) for state in states])

    def _path(self, state: str) -> str:
        return f"{self.folder.rstrip('/')}/verified-{state}.json"


def verify_table(
    metadata: TableMetadata,
    limits: Limits,
    *,
    sample_rows: int,
    runner: Runner | None = None,
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
    rows_at_once: int = _ROWS_AT_ONCE,
) -> list[RuleResult]:
    """Apply all rules to the whole table, and the rule over file indexes where it has any.

    Each group of partitions is judged by the snapshot that is the newest when its turn comes.
    sample_rows    values tried on file indexes, of each group
    runner         where data files are read, a bucket or a file to a task; None = threads of this process
    checkpoint     where an interrupted run left what it had finished; empty when this returns
    progress       called with (groups done, groups) after each
    rows_at_once   rows of a group, unless a single partition has more
    errors         CorruptFileError when the newest snapshot or its manifests cannot be read, UnavailableError
    memory         of this process: 8 bytes for each key of a group, and the view of the table's files
    """
    view = load_view(metadata, metadata.latest_snapshot())
    groups = list(_groups(view, rows_at_once))
    states = [_state(view, group, limits, sample_rows) for group in groups]
    found: list[list[RuleResult]] = []
    for number, (group, state) in enumerate(zip(groups, states, strict=True)):
        results = None if checkpoint is None else checkpoint.read(state)
        if results is None:
            whole = group if len(groups) > 1 else None
            results = _judged(metadata, limits, sample_rows, runner, partitions=whole, first=number == 0)
            if checkpoint is not None:
                checkpoint.write(state, results)
        found.append(results)
        if progress is not None:
            progress(number + 1, len(groups))
    combined = _combined(found)
    if checkpoint is not None:
        checkpoint.remove(states)
    return combined


def _judged(
    metadata: TableMetadata,
    limits: Limits,
    sample_rows: int,
    runner: Runner | None,
    *,
    partitions: Collection[bytes] | None,
    first: bool,
) -> list[RuleResult]:
    evidence = load_evidence(metadata, partitions=partitions, runner=runner, history=None if first else 0)
    results = verify(evidence, limits)
    if indexed_columns(evidence.schema.options):
        name = evidence.partition_name
        results.append(
            check_file_indexes(metadata, evidence.view.entries, sample_rows=sample_rows, partition_name=name)
        )
    return results


def _combined(found: Sequence[Sequence[RuleResult]]) -> list[RuleResult]:
    """Put the results of groups together, rule by rule in the order of the first group."""
    out = []
    for first in found[0]:
        of_rule = [r for results in found for r in results if r.name == first.name]
        out.append(first if first.name in _OF_THE_TABLE else combine(of_rule))
    return out


def _groups(view: SnapshotView, rows_at_once: int) -> Iterator[tuple[bytes, ...]]:
    """Yield the partitions in groups; one empty group for a table without rows."""
    numbers, places = view.entries.places()
    of_place = np.bincount(numbers, weights=view.entries.column("row_count"), minlength=len(places))
    rows: dict[bytes, int] = {}
    for (partition, _), count in zip(places, of_place.tolist(), strict=True):
        rows[partition] = rows.get(partition, 0) + int(count)
    if view.schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        # A key lives in one partition of all.
        yield tuple(sorted(rows))
        return
    group: list[bytes] = []
    held = 0
    for partition in sorted(rows):
        if group and held + rows[partition] > rows_at_once:
            yield tuple(group)
            group, held = [], 0
        group.append(partition)
        held += rows[partition]
    yield tuple(group)


def _state(view: SnapshotView, group: Collection[bytes], limits: Limits, sample_rows: int) -> str:
    """Name what a group is judged by: its files and what is asked of them."""
    wanted = set(group)
    entries = view.entries.of_partitions(of_partitions(wanted))
    names = np.stack([entries.column("high"), entries.column("low")], axis=1)
    digest = hashlib.sha256(repr((limits, sample_rows, view.schema.id)).encode())
    digest.update(np.sort(names.view("u8,u8").reshape(-1)).tobytes())
    digest.update("\n".join(sorted(e.file_name for e in view.index if e.partition in wanted)).encode())
    return digest.hexdigest()[:32]
