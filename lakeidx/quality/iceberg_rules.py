"""A rule over Iceberg metadata: it is of the newest snapshot, and lists files that this one has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.format.json_text import JsonObject
from lakeidx.format.paths import MAIN_BRANCH
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.quality.result import RuleResult, Severity, bounded
from lakeidx.table.iceberg.files import DELETED, IDENTITY, MetadataDir
from lakeidx.table.index_files import index_file_path
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import data_file_path, load_view
from lakeidx.tasks.runner import LocalRunner

Files = Mapping[str, tuple[int, int] | None]
_FAULTS = ("behind", "unreadable", "missing", "not_of_the_snapshot", "of_other_size")


@dataclass(frozen=True, slots=True)
class IcebergEvidence:
    """Iceberg metadata and what it is compared with.

    published   what readers find; the fault of a file that cannot be read
    newest      the newest snapshot
    live        path -> (rows, bytes) of its files, None for those that no size is compared of; None = metadata of another snapshot
    gone        listed files that the store has not
    """

    published: Published | dict[str, Any]
    newest: Snapshot
    live: Files | None
    gone: frozenset[str]


def load_iceberg(
    metadata: TableMetadata, schema: TableSchema, newest: Snapshot | None, pool: LocalRunner, *, files: bool
) -> IcebergEvidence | None:
    """Read what Iceberg readers find; None where there is nothing to find: no snapshot, or a branch.

    newest   the newest snapshot a while ago: a commit that is between its snapshot and its metadata is not behind
    files    whether to read what it lists; else only of which snapshot it is
    """
    if newest is None or metadata.paths.branch != MAIN_BRANCH:
        return None
    try:
        published = _read_published(metadata, schema, files=files)
    except (CorruptFileError, NotFoundError) as error:
        return IcebergEvidence(
            {"file": error.path, "fault": "unreadable", "says": error.message}, newest, None, frozenset()
        )
    live: dict[str, tuple[int, int] | None] | None = None
    if files and published.snapshot_id == newest.id:
        view = load_view(metadata, newest)
        live = {data_file_path(metadata, e): (e.file.row_count, e.file.file_size) for e in view.entries}
        live |= {index_file_path(metadata, schema, e): None for e in view.index}
    asked = [p for p in published.files if live is None or p not in live]
    there = pool.map(metadata.store.exists, asked)
    return IcebergEvidence(
        published, newest, live, frozenset(p for p, found in zip(asked, there, strict=True) if not found)
    )


def check_iceberg(evidence: IcebergEvidence | None) -> RuleResult:
    """Check that Iceberg readers find the newest snapshot, and files that it has.

    An expiry writes it anew when it is behind; so it does after its directory was deleted.
    """
    faults = [] if evidence is None else list(_faults(evidence))
    kinds = [f["fault"] for f in faults]
    published = None if evidence is None else evidence.published
    return RuleResult(
        name="iceberg_metadata",
        passed=not faults,
        severity=Severity.WARN if set(kinds) <= {"behind"} else Severity.ERROR,
        metrics={
            "files_listed": len(published.files) if isinstance(published, Published) else 0,
            **{f"faults_{kind}": kinds.count(kind) for kind in _FAULTS},
        },
        sample=bounded(faults),
        description="Iceberg metadata is of the newest snapshot and lists files that it has. `lakeidx expire TABLE` writes it anew "
        "when it is behind; when it is damaged, delete its directory first.",
    )


def _faults(evidence: IcebergEvidence) -> Iterator[dict[str, Any]]:
    published, newest = evidence.published, evidence.newest
    if isinstance(published, dict):
        yield published
        return
    of = published.snapshot_id
    other = of == newest.id and published.identity not in (None, newest.identity)
    if of is None or of < newest.id or other:
        yield {"fault": "behind", "snapshot": newest.id, "metadata_of": of}
    for path, listed in published.files.items():
        if path in evidence.gone:
            yield {"fault": "missing", "file": path}
        elif evidence.live is not None and path not in evidence.live:
            yield {"fault": "not_of_the_snapshot", "file": path}
        elif evidence.live is not None and listed is not None and evidence.live[path] != listed:
            yield {"fault": "of_other_size", "file": path, "listed": listed, "found": evidence.live[path]}


@dataclass(frozen=True, slots=True)
class Published:
    """Metadata that Iceberg readers find.

    snapshot_id   the snapshot that it is of; None where there is none
    identity      `Snapshot.identity` of that, as far as it says
    files         path -> (rows, bytes) of each data file that it lists; of a vector's file -> None
    """

    snapshot_id: int | None
    identity: str | None
    files: Mapping[str, tuple[int, int] | None]


def _read_published(metadata: TableMetadata, schema: TableSchema, *, files: bool = True) -> Published:
    """Read what Iceberg readers find.

    files    whether to read what it lists, too
    errors   CorruptFileError, NotFoundError naming the file that the hint, the metadata or its manifest list leads to
    """
    place = MetadataDir(metadata.store, metadata.paths.root, schema)
    named = place.named()
    if named is None:
        return Published(None, None, {})
    path = place.version_path(named)
    content = JsonObject.parse(metadata.store.get(path), path).value
    try:
        newest = content["snapshots"][-1]
        manifests = place.read_avro(newest["manifest-list"]) if files else []
        entries = [e for m in manifests for e in place.read_avro(m["manifest_path"]) if e["status"] != DELETED]
        listed = {
            f["file_path"]: None if f["content"] else (f["record_count"], f["file_size_in_bytes"])
            for f in (e["data_file"] for e in entries)
        }
        return Published(int(newest["snapshot-id"]), newest["summary"].get(IDENTITY), listed)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"it is no Iceberg metadata: {error!r}", path=path) from error
