"""Options for features that lakeidx does not implement: the uses they refuse, and those that only leave upkeep undone.

Two classes of the three: an option that changes the meaning of rows or the layout of files is refused for the uses that would
go wrong; one that requests upkeep is left out with a warning. The third class is `lakeidx.options.names.HARMLESS`.

source   org.apache.paimon.CoreOptions, org.apache.paimon.schema.SchemaValidation, release 1.4.2 and commit 5dacde516b (2.1)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Use(StrEnum):
    """Uses of a table."""

    READ = "reading"
    WRITE = "writing"
    COMPACT = "compaction"


ALL_USES = (Use.READ, Use.WRITE, Use.COMPACT)
CHANGES = (Use.WRITE, Use.COMPACT)

Test = Callable[[str], bool]


def _on(text: str) -> bool:
    return text.strip().lower() == "true"


def _set(text: str) -> bool:
    return bool(text.strip())


def _one_of(*words: str) -> Test:
    return lambda text: text.strip().lower() in words


def _none_of(*words: str) -> Test:
    return lambda text: text.strip().lower() not in words


@dataclass(frozen=True, slots=True)
class Refused:
    """A rule of the first class.

    key     the option; ``*`` stands for any text
    when    whether a value of it turns the feature on
    uses    what is refused then
    reason  why, as the second half of the error
    """

    key: str
    when: Test
    uses: tuple[Use, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A rule of the second class: `effect` is what does not happen."""

    key: str
    when: Test
    effect: str


_PK_INDEX = (
    "entries of primary-key indexes name their source files, and lakeidx does not rebuild them: Java would read an "
    "incomplete index"
)

REFUSED: tuple[Refused, ...] = (
    Refused("type", _none_of("table", "materialized-table"), ALL_USES, "its files are not those of a Paimon table"),
    Refused(
        "data-evolution.enabled", _on, ALL_USES,
        "the columns of a row are spread over several files, which must be joined by row id",
    ),
    Refused("row-tracking.enabled", _on, CHANGES, "a commit must assign every row an id, which lakeidx does not"),
    Refused(
        "sequence.snapshot-ordering", _on, ALL_USES,
        "rows of a key are ordered by the snapshot that committed them, lakeidx orders by sequence number: an old row could win",
    ),
    Refused(
        "pk-clustering-override", _on, ALL_USES,
        "data files are sorted by clustering.columns, lakeidx merges files that are sorted by the key: keys would occur twice",
    ),
    Refused(
        "chain-table.enabled", _on, ALL_USES,
        "a partition's rows are in its snapshot branch and the delta branches after it; lakeidx reads one branch",
    ),
    Refused("pk-btree.index.columns", _set, CHANGES, _PK_INDEX),
    Refused("pk-bitmap.index.columns", _set, CHANGES, _PK_INDEX),
    Refused("pk-multivalue.index.columns", _set, CHANGES, _PK_INDEX),
    Refused("pk-vector.index.columns", _set, CHANGES, _PK_INDEX),
    Refused("pk-full-text.index.columns", _set, CHANGES, _PK_INDEX),
    Refused("bucket", _one_of("-2"), CHANGES, "rows of a postponed bucket get their bucket from Java's compaction"),
    Refused(
        "postpone.merge-on-read", _on, (Use.READ,),
        "rows of the postponed bucket count, lakeidx reads those that have a bucket already",
    ),
    Refused("upsert-key", _set, (Use.WRITE,), "Paimon merges rows by that key, lakeidx would append them"),
    Refused("scan.primary-branch", _set, (Use.READ,), "partitions are read from that branch first; lakeidx reads one branch"),
    Refused("scan.fallback-snapshot-branch", _set, (Use.READ,), "rows of that branch count, too, lakeidx reads one branch"),
    Refused("scan.fallback-delta-branch", _set, (Use.READ,), "rows of that branch count, too, lakeidx reads one branch"),
    Refused("blob-field", _set, ALL_USES, "values of these columns are in blob files, which lakeidx does not have"),
    Refused("blob-descriptor-field", _set, ALL_USES, "values of these columns point into blobs, which lakeidx does not have"),
    Refused("blob-view-field", _set, ALL_USES, "values of these columns are views of blobs, which lakeidx does not have"),
    Refused("blob-external-storage-field", _set, ALL_USES, "values of these columns are stored outside the table"),
    Refused("blob-external-storage-path", _set, ALL_USES, "values of some columns are stored outside the table"),
    Refused("video-frame-field", _set, ALL_USES, "values of these columns are frames in video files, which lakeidx does not have"),
    Refused("vector-field", _set, ALL_USES, "values of these columns are in vector files, which lakeidx does not have"),
    Refused(
        "fields.*.map.storage-layout", _none_of("default"), ALL_USES,
        "the map's values are stored in columns of their own, which lakeidx does not reassemble",
    ),
    Refused(
        "variant.shreddingSchema", _set, ALL_USES,
        "parts of a variant are stored in columns of their own, which lakeidx does not reassemble",
    ),
    Refused(
        "variant.inferShreddingSchema", _on, ALL_USES,
        "parts of a variant are stored in columns of their own, which lakeidx does not reassemble",
    ),
)  # fmt: skip

_NEWEST = "lakeidx reads the newest snapshot unless the read names another one"

LEFT_OUT: tuple[LeftOut, ...] = (
    LeftOut("metadata.iceberg.storage", _one_of("hive-catalog", "rest-catalog"),
            "commits of lakeidx write no Iceberg metadata for that catalog"),
    LeftOut("metadata.iceberg.manifest-legacy-version", _on, "lakeidx writes Iceberg manifests of the usual version"),
    LeftOut("commit.callbacks", _set, "commits of lakeidx do not call them"),
    LeftOut("tag.callbacks", _set, "tags that lakeidx makes do not call them"),
    LeftOut("visibility-callback.enabled", _on, "commits of lakeidx do not wait for it"),
    LeftOut("metastore.partitioned-table", _on, "new partitions are not registered in the metastore"),
    LeftOut("metastore.tag-to-partition", _set, "tags that lakeidx makes are not registered in the metastore"),
    LeftOut("partition.idle-time-to-report-statistic", _none_of("0", "0 ms", "0 s", "0ms", "0s"),
            "statistics of partitions are not reported to the metastore"),
    LeftOut("clustering.columns", _set, "rows that lakeidx writes are not sorted by them"),
    LeftOut("clustering.incremental", _on, "compactions of lakeidx do not cluster"),
    LeftOut("data-file.external-paths", _set, "lakeidx writes new files below the table's directory"),
    LeftOut("query-auth.enabled", _on, "row filters and column masks of the catalog are not applied"),
    LeftOut("commit.strict-mode.last-safe-snapshot", _none_of("-1"), "commits of lakeidx do not stop after it"),
    LeftOut("scan.mode", _none_of("default", "latest-full", "latest", "full"), _NEWEST),
    LeftOut("scan.snapshot-id", _set, _NEWEST),
    LeftOut("scan.tag-name", _set, _NEWEST),
    LeftOut("scan.timestamp", _set, _NEWEST),
    LeftOut("scan.timestamp-millis", _set, _NEWEST),
    LeftOut("scan.version", _set, _NEWEST),
    LeftOut("scan.watermark", _set, _NEWEST),
    LeftOut("scan.creation-time-millis", _set, _NEWEST),
    LeftOut("scan.file-creation-time-millis", _set, _NEWEST),
    LeftOut("scan.bucket", _set, "lakeidx reads all buckets"),
    LeftOut("incremental-between", _set, _NEWEST),
    LeftOut("incremental-between-timestamp", _set, _NEWEST),
    LeftOut("incremental-to-auto-tag", _set, _NEWEST),
)  # fmt: skip


def refused_by(raw: Mapping[str, str]) -> list[tuple[str, Refused]]:
    """Return the options of a table that refuse some use of it, each with its rule, in the order of `REFUSED`."""
    return [(key, rule) for rule in REFUSED for key in _keys(rule.key, raw) if rule.when(raw[key])]


def left_out_by(raw: Mapping[str, str]) -> list[tuple[str, LeftOut]]:
    """Return the options of a table whose upkeep is left out, each with its rule, in the order of `LEFT_OUT`."""
    return [(key, rule) for rule in LEFT_OUT for key in _keys(rule.key, raw) if rule.when(raw[key])]


def _keys(pattern: str, raw: Mapping[str, str]) -> list[str]:
    if "*" not in pattern:
        return [pattern] if pattern in raw else []
    wanted = re.compile(re.escape(pattern).replace(r"\*", ".+"))
    return [key for key in raw if wanted.fullmatch(key)]
