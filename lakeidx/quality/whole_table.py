"""All rules over a whole table, some partitions at a time, so that memory follows the largest partition.

An interrupted run resumes where it was: with a checkpoint, a folder, what was said of each group of partitions stays
there until the run ends, and counts as long as the group's files are the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeidx.codec.containers.checksum import seal, unseal
from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.file_index.options import indexed_columns
from lakeidx.format.schema.schema_file import BucketMode
from lakeidx.quality.load import TableEvidence, load_evidence
from lakeidx.quality.result import RuleResult, combine
from lakeidx.quality.verify import Limits, verify
from lakeidx.storage.base import ObjectStore
from lakeidx.table.entries import of_partitions
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import load_newest
from lakeidx.table.view import SnapshotView
from lakeidx.tasks.runner import Progress, Runner

#: Rows of the partitions that are looked at together, where there are several.
_ROWS_AT_ONCE = 50_000_000
#: Rules over the table as such: what the first group says of them counts.
_OF_THE_TABLE = ("snapshot_chain", "options_followed", "iceberg_metadata")
#: Files of a `Checkpoint`.
CHECKPOINT_FILE = re.compile(r"verified-[0-9a-f]{32}\.json")
#: Key hashes are counted in so many equal parts of the 32-bit space, a power of two.
_HASH_PARTS = 64


@dataclass(frozen=True, slots=True)
class Verified:
    """Findings on a table, or on a group of its partitions.

    results       of each rule, in a fixed order
    snapshot_id   the newest snapshot that was judged; None for a table without one
    keys          that are alive in buckets that could be read
    hash_counts   `_HASH_PARTS` counts of the index' hashes, or of those of live keys where there is no index
    """

    results: tuple[RuleResult, ...]
    snapshot_id: int | None
    buckets: int
    data_files: int
    keys: int
    index_hashes: int
    hash_counts: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return what was found as plain JSON values."""
        figures = {name: getattr(self, name) for name in self.__slots__ if name != "results"}
        return {**figures, "results": [r.to_json() for r in self.results]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Verified:
        """Make it from the output of `to_json`."""
        results = tuple(RuleResult.from_json(r) for r in data["results"])
        return cls(**{**data, "results": results, "hash_counts": tuple(data["hash_counts"])})


def decode_checkpoint(data: bytes, path: str) -> Verified:
    """Decode a file of a `Checkpoint`; CorruptFileError for another file, or a damaged one."""
    try:
        return Verified.from_json(json.loads(unseal(data, path)))
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptFileError(f"no results of a verification ({error}): remove the file", path=path) from error


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Storage for the results of finished groups until the run ends.

    store    a store that reaches the folder
    folder   of this run alone
    """

    store: ObjectStore
    folder: str

    def read(self, state: str) -> Verified | None:
        """Return an interrupted run's findings for a group; None when it did not reach it, or the group has changed since.

        errors   CorruptFileError for a file that this class did not write
        """
        path = self._path(state)
        try:
            data = self.store.get(path)
        except NotFoundError:
            return None
        return decode_checkpoint(data, path)

    def write(self, state: str, found: Verified) -> None:
        """Store the findings of a group."""
        self.store.put(self._path(state), seal(json.dumps(found.to_json(), default=str).encode()))

    def clear(self) -> None:
        """Remove what this class has written, also of groups that have changed since."""
        found = self.store.list(self.folder.rstrip("/"))
        self.store.delete_many([f.path for f in found if CHECKPOINT_FILE.fullmatch(f.name)])

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
    file_indexes: bool | None = None,
    rows_at_once: int = _ROWS_AT_ONCE,
) -> Verified:
    """Apply all rules to the whole table.

    Each group of partitions is judged by the snapshot that is the newest when its turn comes.
    sample_rows    values tried on file indexes, of each group
    runner         where data files are read, a bucket or a file to a task; None = threads of this process
    checkpoint     where an interrupted run left what it had finished; empty when this returns
    progress       called with (groups done, groups) after each
    file_indexes   whether to ask the file indexes, too; None = where the table's options name some
    rows_at_once   rows of a group, unless a single partition has more
    errors         CorruptFileError when the newest snapshot or its manifests cannot be read, UnavailableError
    memory         of this process: 8 bytes for each key of a group, and the view of the table's files
    """
    view = load_newest(metadata)
    groups = list(_groups(view, rows_at_once))
    states = [_state(view, group, limits, sample_rows) for group in groups]
    if len(groups) == 1:
        # There is nothing in it to resume from.
        checkpoint = None
    found: list[Verified] = []
    for number, (group, state) in enumerate(zip(groups, states, strict=True)):
        judged = None if checkpoint is None else checkpoint.read(state)
        if judged is None:
            whole = group if len(groups) > 1 else None
            evidence = load_evidence(metadata, partitions=whole, runner=runner, history=0 if number else None)
            judged = _judged(metadata, evidence, limits, sample_rows, file_indexes)
            if checkpoint is not None:
                checkpoint.write(state, judged)
        found.append(judged)
        if progress is not None:
            progress(number + 1, len(groups))
    combined = _combined(found)
    if checkpoint is not None:
        checkpoint.clear()
    return combined


def _judged(
    metadata: TableMetadata, evidence: TableEvidence, limits: Limits, sample_rows: int, file_indexes: bool | None
) -> Verified:
    results = verify(evidence, limits)
    if indexed_columns(evidence.schema.options) if file_indexes is None else file_indexes:
        from lakeidx.quality.file_index_answers import check_file_indexes

        name = evidence.partition_name
        results.append(
            check_file_indexes(metadata, evidence.view.entries, sample_rows=sample_rows, partition_name=name)
        )
    return of_evidence(evidence, results)


def of_evidence(evidence: TableEvidence, results: Sequence[RuleResult]) -> Verified:
    """Return the results with figures of what they rest on."""
    hashes = [h for h in evidence.index.values() if len(h)] or list(evidence.live.values())
    return Verified(
        results=tuple(results),
        snapshot_id=None if evidence.snapshot is None else evidence.snapshot.id,
        buckets=len(evidence.scope),
        data_files=len(evidence.view.entries),
        keys=sum(len(h) for h in evidence.live.values()),
        index_hashes=sum(len(h) for h in evidence.index.values()),
        hash_counts=tuple(int(n) for n in sum((_counts(h) for h in hashes), _counts(np.empty(0, np.int32)))),
    )


def _counts(hashes: NDArray[np.int32]) -> NDArray[np.int64]:
    parts = (hashes.astype(np.int64) + 2**31) // (2**32 // _HASH_PARTS)
    return np.bincount(parts, minlength=_HASH_PARTS)


def _combined(found: Sequence[Verified]) -> Verified:
    """Put what was found of groups together, rule by rule in the order of the first group."""
    results = []
    for first in found[0].results:
        of_rule = [r for group in found for r in group.results if r.name == first.name]
        results.append(first if first.name in _OF_THE_TABLE else combine(of_rule))
    ids = [group.snapshot_id for group in found if group.snapshot_id is not None]
    return Verified(
        results=tuple(results),
        snapshot_id=max(ids, default=None),
        buckets=sum(group.buckets for group in found),
        data_files=sum(group.data_files for group in found),
        keys=sum(group.keys for group in found),
        index_hashes=sum(group.index_hashes for group in found),
        hash_counts=tuple(map(sum, zip(*(group.hash_counts for group in found), strict=True))),
    )


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
    """Return the identity of a group's check: its files and the requested rules."""
    wanted = set(group)
    entries = view.entries.of_partitions(of_partitions(wanted))
    names = np.stack([entries.column("high"), entries.column("low")], axis=1)
    # Files of releases that kept other figures are not taken for this one's.
    digest = hashlib.sha256(repr((Verified.__slots__, limits, sample_rows, view.schema.id)).encode())
    digest.update(np.sort(names.view("u8,u8").reshape(-1)).tobytes())
    digest.update("\n".join(sorted(e.file_name for e in view.index if e.partition in wanted)).encode())
    return digest.hexdigest()[:32]
