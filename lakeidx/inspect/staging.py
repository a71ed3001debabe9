"""``lakeidx inspect`` for the files of batches and key indexes beside a table, in ``_lakeidx``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ValidationError

from lakeidx.batch.artifacts import (
    STAGING_DIR,
    BucketAssignmentReport,
    CommitNote,
    CommitReport,
    IndexWriteReport,
    IngestReport,
    SupersededRun,
)
from lakeidx.batch.commit_priority import PriorityFile
from lakeidx.codec.containers.sealed_json import unseal
from lakeidx.data.json_values import json_rows
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.key_index.bucket.consistent_hashing import COMMIT_SUFFIX, FILE_SUFFIX, decode_metadata
from lakeidx.key_index.state.manifest import MANIFEST_NAME, StateManifest, decode_manifest
from lakeidx.key_index.state.run_files import RUN_PREFIX, RUN_SUFFIX
from lakeidx.key_index.state.segments import first_head
from lakeidx.key_index.table_view import COMMITS_DIR
from lakeidx.pipeline_file.partitions import LEDGER_DIR, POINTER_DIR, CurrentBatch
from lakeidx.quality.whole_table import CHECKPOINT_FILE
from lakeidx.quality.whole_table import decode_checkpoint as decode_verified
from lakeidx.table.commit.changes import decode_changes

_REPORTS: Mapping[str, type[BaseModel]] = {
    "ingest": IngestReport,
    "bucket_assignment": BucketAssignmentReport,
    "index_write": IndexWriteReport,
    "commit": CommitReport,
}
_NOTES: Mapping[str, tuple[type[BaseModel], str]] = {
    "turn": (PriorityFile, "commit priority"),
    "committing": (CommitNote, "note of a commit"),
    "superseded": (SupersededRun, "note of a run that does not count"),
}


def describe_staging(data: bytes, path: str) -> dict[str, Any]:
    """Show a file below ``_lakeidx`` that no format of its own marks.

    errors   CorruptFileError for a damaged file; UnsupportedError for one that lakeidx does not write there
    """
    *_, folder, name = path.split("/")
    if name.endswith(FILE_SUFFIX):
        return {"kind": "consistent hashing ring", **asdict(decode_metadata(data, path))}
    if name.endswith(COMMIT_SUFFIX) and not data:
        return {"kind": "commit marker of a ring", "instant": name.removesuffix(COMMIT_SUFFIX)}
    if MANIFEST_NAME.fullmatch(name):
        return _describe_state(decode_manifest(data, path))
    if name.startswith(RUN_PREFIX) and name.endswith(RUN_SUFFIX):
        return _describe_run(data, path)
    if folder == COMMITS_DIR:
        return {"kind": "commit marker", "instant": name, "snapshotId": _number(data, path)}
    if folder == LEDGER_DIR:
        return {"kind": "committed landing file", "batch_id": data.decode("utf-8", "replace").partition("\n")[0]}
    if CHECKPOINT_FILE.fullmatch(name):
        return {"kind": "results of a group of partitions, of a verification", **decode_verified(data, path).to_json()}
    return _describe_json(_parse(data, path), folder, path)


def is_staging(path: str) -> bool:
    """Return True for a path below ``_lakeidx``."""
    return STAGING_DIR in path.split("/")


def describe_changes(data: bytes, path: str) -> dict[str, Any]:
    """Show how many manifest entries of each kind a batch will commit."""
    changes = decode_changes(data, path)
    return {"entries": {f.name: len(getattr(changes, f.name)) for f in fields(changes)}}


def describe_arrow(data: bytes, path: str, limit: int) -> dict[str, Any]:
    """Show the columns and first rows of an Arrow IPC file."""
    try:
        with pa.ipc.open_file(pa.BufferReader(data)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(f"not a readable Arrow file: {error}", path=path) from error
    metadata = {k.decode("utf-8", "replace"): v.hex() for k, v in (table.schema.metadata or {}).items()}
    return {
        "rows": table.num_rows,
        "fields": [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in table.schema],
        "metadata": metadata,
        "first": json_rows(table.slice(0, min(limit, 10))),
    }


def _describe_state(manifest: StateManifest) -> dict[str, Any]:
    return {
        "kind": "key state",
        "table_id": manifest.table_id,
        "scope": manifest.scope,
        "snapshot_id": manifest.snapshot_id,
        "token": manifest.token,
        "shards": len(manifest.shards),
        "entries": sum(ref.entries for runs in manifest.shards for ref in runs),
        "keys": sum(manifest.counts.values()),
        "partitions": list(manifest.partitions),
        "files": sorted(manifest.files),
    }


def _describe_run(data: bytes, path: str) -> dict[str, Any]:
    """Show the first segment; the manifests have the places of the others."""
    head = first_head(data, path)
    shard_bits, slot_bits, print_bits, code_bits, _ = head.shape.tolist()
    return {
        "kind": "segments of a key state",
        "first": {
            "entries": head.entries,
            "places": len(head.places),
            "shard_bits": shard_bits,
            "slot_bits": slot_bits,
            "print_bits": print_bits,
            "place_bits": code_bits,
            "written": list(head.written),
        },
    }


def _describe_json(raw: dict[str, Any], folder: str, path: str) -> dict[str, Any]:
    model, kind = _NOTES.get(str(raw.get("kind"))) or (_REPORTS.get(str(raw.get("stage"))), "stage report")
    try:
        if folder == POINTER_DIR:
            return {"kind": "current batch of a partition", **asdict(CurrentBatch(**raw))}
        if model is not None:
            return {**model.model_validate(raw).model_dump(mode="json"), "kind": kind}
    except (ValidationError, TypeError) as error:
        raise CorruptFileError(f"not a {kind}: {str(error).splitlines()[0]}", path=path) from error
    raise UnsupportedError("a JSON file, but not one that lakeidx writes beside a table", path=path)


def _parse(data: bytes, path: str) -> dict[str, Any]:
    try:
        found = json.loads(unseal(data, path))
    except ValueError as error:
        raise UnsupportedError("not a file that lakeidx writes beside a table", path=path) from error
    if not isinstance(found, dict):
        raise UnsupportedError("a JSON file, but not one that lakeidx writes beside a table", path=path)
    return found


def _number(data: bytes, path: str) -> int:
    try:
        return int(data)
    except ValueError as error:
        raise CorruptFileError(f"expected a snapshot id, found {bytes(data[:40])!r}", path=path, offset=0) from error
