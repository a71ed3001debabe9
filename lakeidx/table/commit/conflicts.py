"""Pure conflict rules: the live state of the touched partitions against what a commit wants to change.

Each rule gives a list of findings in words; an empty list means that the commit may continue.

source   org.apache.paimon.operation.commit.ConflictDetection (rules 1-3), release 1.4.2; rules 4 to 10 are lakeidx's own:
         Paimon lets two writers of a dynamic-bucket table both win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.snapshot import CommitKind
from lakeidx.table.deletion_vectors import StoredVector

#: (partition bytes, bucket, data file name) -> where its deletion vector lies.
VectorPlaces = Mapping[tuple[bytes, int, str], StoredVector]

#: At most so many findings are put in words.
MOST_FINDINGS = 5


def file_conflicts(live: Sequence[ManifestEntry], delta: Sequence[ManifestEntry]) -> list[str]:
    """Check rule 2: a DELETE needs its live file, an ADD must not be live already (DELETE first, then ADD, is an upgrade).

    live   at least those that the delta speaks of
    """
    present = {e.identifier for e in live}
    findings: list[str] = []
    for entry in delta:
        identifier, finding = entry.identifier, ""
        if entry.kind is FileKind.DELETE:
            if identifier not in present:
                finding = "is no longer live: another writer compacted or removed it"
            present.discard(identifier)
        elif identifier in present:
            finding = "is added twice"
        else:
            present.add(identifier)
        if finding:
            place = f"(bucket {entry.bucket}, level {entry.file.level})"
            findings.append(f"data file {entry.file.file_name} {place} {finding}")
        if len(findings) >= MOST_FINDINGS:
            break
    return findings


def bucket_count_conflicts(have: Mapping[bytes, int], delta: Sequence[ManifestEntry]) -> list[str]:
    """Check rule 1: a partition's files all have one total bucket number; changing it needs an overwrite.

    have   total bucket number of the live files, by partition
    """
    for entry in delta:
        before = have.get(entry.partition)
        if entry.kind is FileKind.ADD and before is not None and before != entry.total_buckets:
            return [
                f"the partition has {before} buckets, the new files were written for {entry.total_buckets}: overwrite the "
                "partition once to change the number of its buckets"
            ]
    return []


def changed_buckets(
    assigned_on: Mapping[bytes, Mapping[int, str]], live: Mapping[bytes, Mapping[int, str]]
) -> dict[bytes, set[int]]:
    """Find the buckets whose HASH index file is not the one a batch was assigned on, by partition.

    Both map partition -> bucket -> index file name.
    """
    found = {}
    for partition, before in assigned_on.items():
        now = live.get(partition, {})
        changed = {b for b in {*before, *now} if before.get(b) != now.get(b)}
        if changed:
            found[partition] = changed
    return found


def index_file_conflicts(live: Sequence[IndexEntry], changes: Sequence[IndexEntry]) -> list[str]:
    """Check rule 8: an index file that a commit removes is live and unchanged."""
    known = {index_identity(e) for e in live}
    return [
        f"index file {e.file_name} of bucket {e.bucket} is no longer live: another writer deleted rows or compacted"
        for e in changes
        if e.kind is FileKind.DELETE and index_identity(e) not in known
    ][:MOST_FINDINGS]


def index_identity(entry: IndexEntry) -> tuple[object, ...]:
    """Return what identifies the state of an index file: the same file may come again with fewer deletion vectors."""
    return entry.partition, entry.bucket, entry.index_type, entry.file_name, entry.dv_ranges


def writer_conflicts(since: int, kinds: Mapping[int, CommitKind | None]) -> list[str]:
    """Check rule 7: no rows were written since a snapshot; compactions and statistics are fine.

    kinds   of all snapshots after `since`; None = expired, so that no one can tell
    """
    others = [i for i, kind in kinds.items() if kind not in (CommitKind.COMPACT, CommitKind.ANALYZE)]
    if not others:
        return []
    return [
        f"the batch was planned on snapshot {since} for all of its rows at once, and snapshot {min(others)} may have changed them"
    ]


def sequence_conflicts(live_max: Mapping[tuple[bytes, int], int], delta: Sequence[ManifestEntry]) -> list[str]:
    """Check rule 5: new level-0 rows are newer than every row of their bucket, so 'the later batch wins' stays true."""
    findings = []
    for entry in delta:
        if entry.kind is FileKind.ADD and entry.file.level == 0:
            top = live_max.get((entry.partition, entry.bucket), -1)
            if entry.file.min_sequence_number <= top:
                findings.append(
                    f"bucket {entry.bucket} already has sequence number {top}, the batch starts at "
                    f"{entry.file.min_sequence_number}: another batch was committed in between"
                )
    return findings[:MOST_FINDINGS]
