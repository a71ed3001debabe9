"""Snapshot files ``snapshot/snapshot-<id>``: JSON, keys in the order of `Snapshot`'s fields in camelCase, null keys left out.

Version 3 is written. Version 1 files name no ``deltaRecordCount``/``totalRecordCount`` (both read as 0 then). Unknown keys are
kept and written again with the snapshot (in a tag, a long-lived changelog, a snapshot restored from a tag).
Long-lived changelogs (``changelog/changelog-<id>``) have the same keys.

source   org.apache.paimon.Snapshot, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any

from lakeidx.errors import UnsupportedError
from lakeidx.format.json_text import JsonObject
from lakeidx.format.json_write import format_json
from lakeidx.storage.files import plain_name

_SNAPSHOT_VERSION = 3
BATCH_COMMIT_IDENTIFIER = (1 << 63) - 1
"""`Snapshot.commit_identifier` of Paimon's batch writers."""


class CommitKind(StrEnum):
    """Kind of change that a snapshot made."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One committed state of a table.

    base_manifest_list, delta_manifest_list, changelog_manifest_list, index_manifest, statistics   file names without directory
    time_millis           when it was committed, epoch milliseconds
    total_record_count    physical rows of all data files, deletes and superseded versions included
    delta_record_count    rows added minus rows of deleted files
    unknown               keys of a later release and their values
    """

    version: int = _SNAPSHOT_VERSION
    uuid: str | None = None
    id: int
    schema_id: int
    base_manifest_list: str
    base_manifest_list_size: int | None = None
    delta_manifest_list: str
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    commit_user: str
    writer_version: str | None = None
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    delta_record_count: int
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    next_row_id: int | None = None
    operation: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """Identity that distinguishes the snapshot from another one of the same id; ids are reused after a rollback.

        Its uuid; where the writer gave none (Java before 1.0), what no two commits share.
        """
        if self.uuid is not None:
            return self.uuid
        names = (self.base_manifest_list, self.delta_manifest_list)
        return " ".join((self.commit_user, str(self.commit_identifier), *names, str(self.time_millis)))


#: Field -> key, in written order.
_KEYS = {
    "_".join((word, *rest)): word + "".join(more.title() for more in rest)
    for word, *rest in (f.name.split("_") for f in fields(Snapshot))
    if word != "unknown"
}
_VALUES = attrgetter(*_KEYS)
# The two keys of a tag are no business of its snapshot.
_KNOWN = frozenset({"tagCreateTime", "tagTimeRetained", *_KEYS.values()})


def snapshot_to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return the snapshot's keys and values in written order, null ones left out."""
    found = dict(zip(_KEYS.values(), _VALUES(snapshot), strict=True))
    found |= {"commitKind": snapshot.commit_kind.value, "properties": dict(snapshot.properties) or None}
    return {key: value for key, value in found.items() if value is not None} | dict(snapshot.unknown)


def snapshot_from_json(o: JsonObject) -> Snapshot:
    """Decode the snapshot in a parsed file.

    errors   CorruptFileError; UnsupportedError for a version after 3
    """
    version = o.need_int("version", 1)
    if version > _SNAPSHOT_VERSION:
        raise UnsupportedError(f"snapshot version {version} is newer than {_SNAPSHOT_VERSION}", path=o.path)
    kind = o.need_text("commitKind")
    if kind not in CommitKind.__members__:
        raise o.error("commitKind", f"one of {', '.join(CommitKind.__members__)}")
    return Snapshot(
        version=version,
        uuid=o.get_text("uuid"),
        id=o.need_int("id"),
        schema_id=o.need_int("schemaId"),
        base_manifest_list=_need_name(o, "baseManifestList"),
        base_manifest_list_size=o.get_int("baseManifestListSize"),
        delta_manifest_list=_need_name(o, "deltaManifestList"),
        delta_manifest_list_size=o.get_int("deltaManifestListSize"),
        changelog_manifest_list=_get_name(o, "changelogManifestList"),
        changelog_manifest_list_size=o.get_int("changelogManifestListSize"),
        index_manifest=_get_name(o, "indexManifest"),
        commit_user=o.need_text("commitUser"),
        writer_version=o.get_text("writerVersion"),
        commit_identifier=o.need_int("commitIdentifier"),
        commit_kind=CommitKind(kind),
        time_millis=o.need_int("timeMillis"),
        total_record_count=o.need_int("totalRecordCount", 0),
        delta_record_count=o.need_int("deltaRecordCount", 0),
        changelog_record_count=o.get_int("changelogRecordCount"),
        watermark=o.get_int("watermark"),
        statistics=_get_name(o, "statistics"),
        properties=o.string_map("properties"),
        next_row_id=o.get_int("nextRowId"),
        operation=o.get_text("operation"),
        unknown=o.rest(_KNOWN),
    )


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encode the snapshot file."""
    return format_json(snapshot_to_json(snapshot))


def decode_snapshot(data: bytes, path: str | None = None) -> Snapshot:
    """Read a snapshot, a tag's snapshot part or a long-lived changelog.

    errors   CorruptFileError; UnsupportedError for a version after 3
    """
    return snapshot_from_json(JsonObject.parse(data, path))


def _need_name(o: JsonObject, key: str) -> str:
    return _checked_name(o, key, o.need_text(key))


def _get_name(o: JsonObject, key: str) -> str | None:
    name = o.get_text(key)
    return None if name is None else _checked_name(o, key, name)


def _checked_name(o: JsonObject, key: str, name: str) -> str:
    try:
        return plain_name(name)
    except ValueError as e:
        raise o.error(key, "the name of a file in the table's directory") from e


def encode_hint(id: int) -> bytes:
    """Encode a ``LATEST`` or ``EARLIEST`` file: the id as decimal text, no newline."""
    return str(id).encode()
