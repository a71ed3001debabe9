"""Pure conflict rules: the live state of the touched partitions against what a commit wants to change.

Each rule gives a list of findings in words; an empty list means that the commit may go on.

source   org.apache.paimon.operation.commit.ConflictDetection (rules 1-3), release 1.4.2; rules 4 to 7 are lakeidx's own:
         Paimon lets two writers of a dynamic-bucket table both win.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.snapshot import CommitKind

#: At most so many findings are put in words.
LIMIT = 5


def file_conflicts(live: Sequence[ManifestEntry], delta: Sequence[ManifestEntry]) -> list[str]:
    """Rule 2: a DELETE needs its live file, an ADD must not be live already (DELETE first, then ADD, is an upgrade)."""
    present = {e.identifier for e in live}
    findings: list[str] = []
    for entry in delta:
        name = f"{entry.file.file_name} (bucket {entry.bucket}, level {entry.file.level})"
        if entry.kind is FileKind.DELETE:
            if entry.identifier not in present:
                findings.append(f"data file {name} is not live any more: somebody else compacted or removed it")
            present.discard(entry.identifier)
        elif entry.identifier in present:
            findings.append(f"data file {name} is added twice")
        else:
            present.add(entry.identifier)
        if len(findings) >= LIMIT:
            break
    return findings


def bucket_count_conflicts(live: Sequence[ManifestEntry], delta: Sequence[ManifestEntry]) -> list[str]:
    """Rule 1: a partition's files all have one total bucket number; changing it needs an overwrite."""
    have = {e.partition: e.total_buckets for e in live}
    for entry in delta:
        before = have.get(entry.partition)
        if entry.kind is FileKind.ADD and before is not None and before != entry.total_buckets:
            return [f"the partition has {before} buckets, the new files were written for {entry.total_buckets}"]
    return []


def level_overlaps(
    live: Sequence[ManifestEntry], delta: Sequence[ManifestEntry], key: Callable[[bytes], Any]
) -> list[str]:
    """Rule 3: files of one bucket and level >= 1 do not overlap in keys.

    key   turns min/max key bytes into something that compares as the keys do
    """
    after = {e.identifier: e for e in live}
    touched: set[tuple[bytes, int, int]] = set()
    for entry in delta:
        if entry.kind is FileKind.DELETE:
            after.pop(entry.identifier, None)
        else:
            after[entry.identifier] = entry
            if entry.file.level >= 1:
                touched.add((entry.partition, entry.bucket, entry.file.level))
    runs: dict[tuple[bytes, int, int], list[DataFileMeta]] = {}
    for entry in after.values():
        place = (entry.partition, entry.bucket, entry.file.level)
        if place in touched:
            runs.setdefault(place, []).append(entry.file)
    findings: list[str] = []
    for (_, bucket, level), files in runs.items():
        ordered = sorted(files, key=lambda f: key(f.min_key))
        for left, right in pairwise(ordered):
            if not key(left.max_key) < key(right.min_key):
                findings.append(
                    f"files {left.file_name} and {right.file_name} overlap in bucket {bucket} level {level}"
                )
    return findings[:LIMIT]


def index_conflicts(
    assigned_on: Mapping[bytes, Mapping[int, str]], live: Mapping[bytes, Mapping[int, str]]
) -> list[str]:
    """Rule 4: the HASH index files of the partitions a batch was assigned in are still the ones it was assigned on.

    Both map partition -> bucket -> index file name.
    """
    findings = []
    for partition, before in assigned_on.items():
        now = live.get(partition, {})
        if dict(before) != dict(now):
            changed = sorted({b for b in {*before, *now} if before.get(b) != now.get(b)})
            findings.append(
                f"the hash index changed since the batch was assigned (buckets {', '.join(map(str, changed[:8]))})"
            )
    return findings[:LIMIT]


def exact_file_conflicts(live: Sequence[ManifestEntry], exact: Mapping[tuple[bytes, int], frozenset[str]]) -> list[str]:
    """Rule 6: a bucket whose hash index is written anew from its rows got no other rows meanwhile."""
    names: dict[tuple[bytes, int], set[str]] = {place: set() for place in exact}
    for entry in live:
        if (entry.partition, entry.bucket) in names:
            names[(entry.partition, entry.bucket)].add(entry.file.file_name)
    return [
        f"bucket {place[1]} got other files while its hash index was written anew"
        for place, wanted in exact.items()
        if names[place] != wanted
    ][:LIMIT]


def writer_conflicts(since: int, kinds: Mapping[int, CommitKind | None]) -> list[str]:
    """Rule 7: nobody wrote rows since a snapshot; compactions and statistics are fine.

    kinds   of all snapshots after `since`; None = expired, so that nobody can tell
    """
    others = [i for i, kind in kinds.items() if kind not in (CommitKind.COMPACT, CommitKind.ANALYZE)]
    if not others:
        return []
    return [
        f"the batch was assigned on snapshot {since} with an index over all partitions, and snapshot {min(others)} may have "
        "moved its keys"
    ]


def sequence_conflicts(live_max: Mapping[tuple[bytes, int], int], delta: Sequence[ManifestEntry]) -> list[str]:
    """Rule 5: new level-0 rows are newer than every row of their bucket, so 'the later batch wins' stays true."""
    findings = []
    for entry in delta:
        if entry.kind is FileKind.ADD and entry.file.level == 0:
            top = live_max.get((entry.partition, entry.bucket), -1)
            if entry.file.min_sequence_number <= top:
                findings.append(
                    f"bucket {entry.bucket} already has sequence number {top}, the batch starts at "
                    f"{entry.file.min_sequence_number}: another batch was committed in between"
                )
    return findings[:LIMIT]
