"""Checkpoints of the key state on the object store, each with the snapshot it belongs to.

====================================================  =================================================================
file below ``<index dir>/state/<scope>/``             content
====================================================  =================================================================
``checkpoint-<snapshot id, 20 digits>.json``          table, scope, snapshot, and the files of the database
``files/<name>-<size>-<xxh64>``                       one file of the database; those two checkpoints share are kept
once
====================================================  =================================================================

The description is put last, so a checkpoint that can be read is whole. Files are checked by size and hash when they
come back.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import xxhash

from lakeidx.codec.containers.sealed_json import seal, unseal
from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.format.file_names import plain_name
from lakeidx.key_index.state.key_state import StateMeta
from lakeidx.key_index.state.store import RocksStore
from lakeidx.storage.base import ObjectStore, join

_PREFIX, _SUFFIX = "checkpoint-", ".json"
CHECKPOINT_NAME = re.compile(r"checkpoint-[0-9]{20}\.json")
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCheckpoint:
    """One checkpoint.

    files   name in the database -> name of the object
    """

    path: str
    table_id: str
    scope: str
    snapshot_id: int
    token: str | None
    files: Mapping[str, str]


class CheckpointFolder:
    """Checkpoints of one state."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store = store
        self._folder = folder

    def save(self, database: RocksStore, meta: StateMeta, *, keep: int) -> None:
        """Upload the database as the checkpoint of the snapshot `meta` is at; delete all but the newest `keep` up to it."""
        assert meta.snapshot_id is not None
        with tempfile.TemporaryDirectory(dir=database.directory.parent) as scratch:
            copy = Path(scratch) / "copy"
            database.checkpoint(copy)
            uploads = _Uploads(database.directory)
            files = {f.name: self._upload(f, uploads) for f in sorted(copy.iterdir())}
            uploads.save(set(files.values()))
        described = {
            "version": _VERSION,
            "table_id": meta.table_id,
            "scope": meta.scope,
            "snapshot_id": meta.snapshot_id,
            "token": meta.token,
            "files": files,
        }
        path = join(self._folder, f"{_PREFIX}{meta.snapshot_id:020d}{_SUFFIX}")
        self._store.put(path, seal(json.dumps(described).encode("utf-8")))
        # Later ones are of snapshots that were rolled back.
        self._store.delete_many(p for p in self._paths() if p > path)
        self._prune(keep)

    def readable(self) -> list[StateCheckpoint]:
        """Return the readable checkpoints, newest first."""
        out = []
        for path in reversed(self._paths()):
            try:
                out.append(decode_checkpoint(self._store.get(path), path))
            except (CorruptFileError, NotFoundError):
                continue
        return out

    def restore(self, checkpoint: StateCheckpoint, directory: Path) -> None:
        """Download a checkpoint's files into a directory, replacing its content.

        errors   NotFoundError, CorruptFileError when a file is missing or is not what was put
        """
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700, parents=True)
        for name, stored in checkpoint.files.items():
            path = join(self._folder, "files", stored)
            data = self._store.get(path)
            if object_name(name, data) != stored:
                raise CorruptFileError("a checkpoint's file differs from the one that was uploaded", path=path)
            (directory / name).write_bytes(data)

    def newest(self) -> int:
        """Return the snapshot of the newest checkpoint, readable or not; 0 when there is none."""
        paths = self._paths()
        return int(paths[-1].rsplit(_PREFIX, 1)[1].removesuffix(_SUFFIX)) if paths else 0

    def _upload(self, file: Path, uploads: _Uploads) -> str:
        stored = uploads.find(file)
        if stored is not None and self._store.exists(join(self._folder, "files", stored)):
            return stored
        data = file.read_bytes()
        stored = object_name(file.name, data)
        path = join(self._folder, "files", stored)
        if not self._store.exists(path):
            self._store.put(path, data)
        uploads.note(file, stored)
        return stored

    def _prune(self, keep: int) -> None:
        paths = self._paths()
        for path in paths[:-keep]:
            self._store.delete(path)
        kept = self.readable()
        if len(kept) < len(paths[-keep:]):
            # One that cannot be read may name files no one else does; leave everything until it is gone.
            return
        needed = {stored for c in kept for stored in c.files.values()}
        gone = [f.path for f in self._store.list(join(self._folder, "files")) if f.name not in needed]
        self._store.delete_many(gone)

    def _paths(self) -> list[str]:
        return sorted(f.path for f in self._store.list(self._folder) if CHECKPOINT_NAME.fullmatch(f.name))


class _Uploads:
    """Which files of a local database are on the store already, and as what; kept beside the database.

    A table file never changes under its name, but another database in the same directory has files of the same names: so
    a file is known by its time of change, too, which its hard links share.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory.with_name(directory.name + ".uploads.json")
        try:
            read = json.loads(self._path.read_text(encoding="utf-8"))
            self._known = {str(k): str(v) for k, v in read.items()}
        except (OSError, ValueError, AttributeError):
            self._known = {}

    def find(self, file: Path) -> str | None:
        """Find the object that holds a table file, as far as is known here."""
        return self._known.get(self._mark(file)) if file.suffix == ".sst" else None

    def note(self, file: Path, stored: str) -> None:
        """Record an uploaded file."""
        if file.suffix == ".sst":
            self._known[self._mark(file)] = stored

    def save(self, current: set[str]) -> None:
        """Record the objects of the current checkpoint."""
        kept = {k: v for k, v in self._known.items() if v in current}
        self._path.write_text(json.dumps(kept), encoding="utf-8")

    @staticmethod
    def _mark(file: Path) -> str:
        found = file.stat()
        return f"{file.name} {found.st_size} {found.st_mtime_ns}"


def decode_checkpoint(data: bytes, path: str) -> StateCheckpoint:
    """Read a checkpoint's description.

    errors   CorruptFileError; a description of another version is one, too
    """
    try:
        raw = json.loads(unseal(data, path))
        if raw["version"] != _VERSION:
            raise ValueError(f"version {raw['version']}")
        files = {str(k): str(v) for k, v in raw["files"].items()}
        # Names become paths below a local directory, and below the checkpoints.
        for name in (*files, *files.values()):
            plain_name(name)
        token = raw["token"]
        return StateCheckpoint(
            path=path,
            table_id=str(raw["table_id"]),
            scope=str(raw["scope"]),
            snapshot_id=int(raw["snapshot_id"]),
            token=None if token is None else str(token),
            files=files,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(f"not a checkpoint of key state: {error}", path=path) from error


def object_name(name: str, data: bytes) -> str:
    """Return the name under which a file of the database is stored: its own, its size and its hash."""
    return f"{name}-{len(data)}-{xxhash.xxh64_hexdigest(data)}"
