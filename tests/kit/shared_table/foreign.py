"""What other programs do to a table's directory, as Java Paimon leaves it: by hand, or through a handle of their own."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.manifest import FileKind
from lakeidx.storage.base import ObjectStore
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.deletion_vectors import deletion_vectors, read_deletion_vector, write_deletion_vectors
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import DELETION_VECTORS, decode_partition_dict, load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.reachable import files_on_disk, reachable
from tests.kit.shared_table.model import identity
from tests.kit.table_history import Key
from tests.kit.upserts import upsert_table


def delete_by_vector(table: Table, place: tuple[bytes, int, str, int]) -> None:
    """Delete a row where `deletable` found it, as Java's compaction of a level-0 delete does.

    The bucket's vectors are written into one new index file; the bucket's data files stay as they are.
    """
    m = table.metadata
    view = load_view(m, m.latest_snapshot())
    partition, bucket, file, position = place
    mine = (partition, bucket, DELETION_VECTORS)
    old = [e for e in view.index if (e.partition, e.bucket, e.index_type) == mine]
    vectors: dict[str, set[int]] = {}
    for (_, _, name), vector in deletion_vectors(old).items():
        vectors[name] = set(read_deletion_vector(m, table.schema, partition, bucket, vector))
    vectors.setdefault(file, set()).add(position)
    new = write_deletion_vectors(m, table.schema, partition, bucket, vectors, NewFileNames())
    gone = tuple(replace(e, kind=FileKind.DELETE) for e in old)
    request = CommitRequest(commit_user=str(uuid.uuid4()), changes=TableChanges(compact_index=(*gone, new)))
    commit_changes(m, request)


def deletable(table: Table) -> dict[Key, tuple[bytes, int, str, int]]:
    """Find the keys whose newest row is above level 0, in buckets without files at level 0: partition, bucket, file, position."""
    view = load_view(table.metadata, table.snapshot)
    out: dict[Key, tuple[bytes, int, str, int]] = {}
    for (partition, bucket), files in view.by_bucket().items():
        values = decode_partition_dict(partition, table.schema)
        if any(f.level == 0 for f in files):
            continue
        for file in files:
            path = f"{table.paths.bucket_dir(values, bucket)}/{file.file_name}"
            keys = pq.read_table(path, columns=["k"])["k"].to_pylist()
            out |= {(values["p"], k): (partition, bucket, file.file_name, i) for i, k in enumerate(keys)}
    return out


def make_branch(root: Path, name: str, tag: str) -> None:
    """Make a branch from a tag, as Java does: copies of the tag, its snapshot and the schemas."""
    branch = root / "branch" / f"branch-{name}"
    for folder in ("tag", "snapshot", "schema"):
        (branch / folder).mkdir(parents=True, exist_ok=True)
    source = root / "tag" / f"tag-{tag}"
    snapshot_id = json.loads(source.read_text(encoding="utf-8"))["id"]
    shutil.copy(source, branch / "tag" / source.name)
    shutil.copy(source, branch / "snapshot" / f"snapshot-{snapshot_id}")
    for schema in (root / "schema").glob("schema-*"):
        shutil.copy(schema, branch / "schema" / schema.name)


def newest_of_branch(root: Path, name: str) -> tuple[int, str]:
    """Return id and identity of a branch's newest snapshot."""
    found = (root / "branch" / f"branch-{name}" / "snapshot").glob("snapshot-*")
    newest = max(json.loads(p.read_text(encoding="utf-8"))["id"] for p in found)
    text = (root / "branch" / f"branch-{name}" / "snapshot" / f"snapshot-{newest}").read_text(encoding="utf-8")
    return newest, identity(json.loads(text))


def bucket_of_branch(root: Path, name: str) -> int:
    """Return the bucket number in a branch's newest schema."""
    schemas = (root / "branch" / f"branch-{name}" / "schema").glob("schema-*")
    newest = max(schemas, key=lambda p: int(p.name.removeprefix("schema-")))
    return int(json.loads(newest.read_text(encoding="utf-8"))["options"].get("bucket", "-1"))


def write_on_branch(store: ObjectStore, root: Path, name: str, batch: str, rows: pa.Table) -> None:
    """Run a whole batch on a branch."""
    metadata = TableMetadata.open(store, str(root), branch=name)
    upsert_table(make_context(metadata, batch, runner=LocalRunner(1)), rows, missing="null")


def fast_forward(root: Path, name: str) -> None:
    """Put a branch in the place of all snapshots, schemas and tags from its first one on.

    source   org.apache.paimon.utils.FileSystemBranchManager#fastForward, release 1.4.2
    """
    branch = root / "branch" / f"branch-{name}"
    ids = sorted(int(p.name.removeprefix("snapshot-")) for p in (branch / "snapshot").glob("snapshot-*"))
    schema = json.loads((branch / "snapshot" / f"snapshot-{ids[0]}").read_text(encoding="utf-8"))["schemaId"]
    (root / "snapshot" / "LATEST").unlink(missing_ok=True)
    for file in (root / "snapshot").glob("snapshot-*"):
        if int(file.name.removeprefix("snapshot-")) >= ids[0]:
            file.unlink()
    for file in (root / "schema").glob("schema-*"):
        if int(file.name.removeprefix("schema-")) >= schema:
            file.unlink()
    for file in (root / "tag").glob("tag-*"):
        if json.loads(file.read_text(encoding="utf-8"))["id"] >= ids[0]:
            file.unlink()
    for folder in ("snapshot", "schema", "tag"):
        for file in (branch / folder).glob("*"):
            shutil.copy(file, root / folder / file.name)


def _change_schema(root: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Put a new schema version; `change` edits its JSON."""
    ids = sorted(int(p.name.removeprefix("schema-")) for p in (root / "schema").glob("schema-*"))
    schema = json.loads((root / "schema" / f"schema-{ids[-1]}").read_text(encoding="utf-8"))
    schema["id"] = ids[-1] + 1
    schema["timeMillis"] += 1
    change(schema)
    (root / "schema" / f"schema-{schema['id']}").write_text(json.dumps(schema), encoding="utf-8")


def add_column(root: Path, name: str) -> None:
    """Add a nullable INT column at the end."""

    def change(schema: dict[str, Any]) -> None:
        schema["highestFieldId"] += 1
        schema["fields"].append({"id": schema["highestFieldId"], "name": name, "type": "INT"})

    _change_schema(root, change)


def set_bucket(root: Path, bucket: int) -> None:
    """Set another bucket number for what is written from now on."""
    _change_schema(root, lambda schema: schema["options"].update(bucket=str(bucket)))


def remove_orphans(table: Table) -> None:
    """Remove every file that no snapshot, tag or branch needs: what Java's cleaner does, which knows no staged batch."""
    needed = reachable(table)
    root = Path(table.uri)
    for branch in sorted((root / "branch").glob("branch-*")):
        needed |= reachable(table, branch=branch.name.removeprefix("branch-"))
    for name in files_on_disk(table) - needed:
        if not name.startswith(("branch/", "changelog/")):
            (root / name).unlink()
