"""Manifests of the key state: which segments are the state of a table at one snapshot.

====================================================  =================================================================
file below ``<index dir>/state/<scope>/``             content
====================================================  =================================================================
``state-<snapshot id, 20 digits>-<token>.json``       a `StateManifest`; the token is the XXH64 of the snapshot's own
``run-<UUID>.keys``                                   segments (`lakeidx.key_index.state.run_files`)
====================================================  =================================================================

A manifest is put last and only where there is none, so it names whole files, and of several programs that bring the state to one
snapshot one is used. A snapshot of the same number after a rollback has another token, so its state has another name.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import xxhash

from lakeidx.codec.containers.checksum import seal, unseal
from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.format.file_names import plain_name
from lakeidx.key_index.state.run_files import RUN_PREFIX, SegmentRef, StateStore
from lakeidx.storage.base import FileInfo, join

_log = logging.getLogger(__name__)
_VERSION = 2
MANIFEST_NAME = re.compile(r"state-(?P<id>[0-9]{20})-(?P<token>[0-9a-f]{16})\.json")
_OLD_NAME = re.compile(r"checkpoint-[0-9]{20}\.json")
# A file that no manifest names may be of a program that has yet to put its manifest.
_ORPHAN_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StateManifest:
    """The state of a table at one snapshot.

    table_id    see `TableView.table_id`
    scope       what else decides about its content (global or not, which share of the keys, which partitions)
    snapshot_id, token   snapshot it is at; None for a table without one
    partitions  manifest bytes (hex) by partition number
    bits        log2 of the number of shards: a shard has the keys whose hash begins with its number
    shards      segments of each shard, older ones first
    counts      keys of each (partition number, bucket)
    """

    table_id: str
    scope: str
    snapshot_id: int | None = None
    token: str | None = None
    partitions: tuple[str, ...] = ()
    bits: int = 0
    shards: tuple[tuple[SegmentRef, ...], ...] = ((),)
    counts: Mapping[tuple[int, int], int] = field(default_factory=dict)

    @property
    def files(self) -> set[str]:
        """Names of its files."""
        return {ref.file for runs in self.shards for ref in runs}


class StateFolder:
    """The manifests of one state."""

    def __init__(self, store: StateStore, folder: str) -> None:
        self._store = store
        self._folder = folder

    def candidates(self) -> Iterator[tuple[str, int, StateManifest]]:
        """Read manifests, those of later snapshots first: path, snapshot, content; ones that cannot be read are deleted."""
        for file in sorted(self._store.list(self._folder), key=lambda f: f.name, reverse=True):
            named = MANIFEST_NAME.fullmatch(file.name)
            if named is None:
                continue
            try:
                manifest = decode_manifest(self._store.get(file.path), file.path)
            except NotFoundError:
                continue
            except CorruptFileError as error:
                self.discard(file.path, error)
                continue
            yield file.path, int(named["id"]), manifest

    def find(self, snapshot_id: int, token: str) -> StateManifest | None:
        """Read the manifest of one snapshot; None when there is none that can be read."""
        path = self.path(snapshot_id, token)
        try:
            return decode_manifest(self._store.get(path), path)
        except (NotFoundError, CorruptFileError):
            return None

    def path(self, snapshot_id: int, token: str) -> str:
        """Return the path of a snapshot's manifest."""
        return join(self._folder, f"state-{snapshot_id:020d}-{xxhash.xxh64_hexdigest(token.encode())}.json")

    def discard(self, path: str, reason: Exception) -> None:
        """Delete a manifest that cannot be used, so that another may use its name."""
        _log.warning("deleting the unusable key state %s: %s", path, reason)
        self._store.delete_many([path])

    def publish(self, manifest: StateManifest, *, keep: int, token_of: Callable[[int], str | None]) -> bool:
        """Put a manifest, and delete others that are older than the newest `keep`, or of snapshots that were rolled back.

        token_of   token of a snapshot of the table; None when it is not there
        returns    False when another program has put the manifest of this snapshot; then that one counts
        """
        assert manifest.snapshot_id is not None
        assert manifest.token is not None
        path = self.path(manifest.snapshot_id, manifest.token)
        made = self._store.put_if_absent(path, encode_manifest(manifest))
        self._prune(path, manifest.snapshot_id, keep, token_of)
        return made

    def _prune(self, own: str, snapshot_id: int, keep: int, token_of: Callable[[int], str | None]) -> None:
        listed = self._store.list(self._folder)
        kept: list[FileInfo] = []
        gone: list[FileInfo] = []
        for file in sorted(listed, key=lambda f: f.name, reverse=True):
            named = MANIFEST_NAME.fullmatch(file.name)
            if named is None:
                continue
            later = int(named["id"]) > snapshot_id and self._rolled_back(file, int(named["id"]), token_of)
            # A program that was held up reads its own, however many newer ones there are.
            spared = file.path == own or (not later and len(kept) < keep)
            (kept if spared else gone).append(file)
        if old := [f.path for f in listed if _OLD_NAME.fullmatch(f.name)]:
            _log.info("%d checkpoints of the key state of an older release are deleted", len(old))
            gone_old = [f.path for f in self._store.list(join(self._folder, "files"))]
            self._store.delete_many([*old, *gone_old])
        needed = self._files_of(kept)
        if needed is None:
            # One that cannot be read may name files that no other does; leave everything until it is gone.
            return
        dropped = self._files_of(gone) or set()
        self._store.delete_many([f.path for f in gone])
        late = time.time() * 1000 - _ORPHAN_MS
        runs = [f for f in listed if f.name.startswith(RUN_PREFIX) and f.name not in needed]
        self._store.delete_many([f.path for f in runs if f.name in dropped or f.mtime_ms < late])

    def _rolled_back(self, file: FileInfo, snapshot_id: int, token_of: Callable[[int], str | None]) -> bool:
        token = token_of(snapshot_id)
        return token is None or self.path(snapshot_id, token) != file.path

    def _files_of(self, manifests: list[FileInfo]) -> set[str] | None:
        found: set[str] = set()
        for file in manifests:
            try:
                found |= decode_file_names(self._store.get(file.path), file.path)
            except (NotFoundError, CorruptFileError):
                return None
        return found


def encode_manifest(manifest: StateManifest) -> bytes:
    """Encode a manifest as sealed JSON."""
    files = {name: i for i, name in enumerate(sorted(manifest.files))}
    places = sorted(manifest.counts)
    raw = {
        "version": _VERSION,
        "table_id": manifest.table_id,
        "scope": manifest.scope,
        "snapshot_id": manifest.snapshot_id,
        "token": manifest.token,
        "partitions": manifest.partitions,
        "bits": manifest.bits,
        "files": list(files),
        "shards": [[[files[ref.file], *ref[1:]] for ref in runs] for runs in manifest.shards],
        "counts": [[p for p, _ in places], [b for _, b in places], [manifest.counts[place] for place in places]],
    }
    return seal(json.dumps(raw, separators=(",", ":")).encode("utf-8"))


def decode_manifest(data: bytes, path: str | None = None) -> StateManifest:
    """Read a manifest.

    errors   CorruptFileError; a manifest of another version is one, too
    """
    with _reading(path):
        raw, files = _unsealed(data, path)
        shards = tuple(
            tuple(SegmentRef(files[int(number)], *map(int, rest)) for number, *rest in runs) for runs in raw["shards"]
        )
        bits, snapshot_id, token = int(raw["bits"]), raw["snapshot_id"], raw["token"]
        if len(shards) != 1 << bits:
            raise ValueError(f"{len(shards)} shards of {bits} bits")
        partitions = tuple(bytes.fromhex(text).hex() for text in raw["partitions"])
        return StateManifest(
            table_id=str(raw["table_id"]),
            scope=str(raw["scope"]),
            snapshot_id=None if snapshot_id is None else int(snapshot_id),
            token=None if token is None else str(token),
            partitions=partitions,
            bits=bits,
            shards=shards,
            counts={(int(p), int(b)): int(n) for p, b, n in zip(*raw["counts"], strict=True)},
        )


def decode_file_names(data: bytes, path: str | None = None) -> set[str]:
    """Read the names of a manifest's files, and nothing else of it.

    errors   as `decode_manifest`
    """
    with _reading(path):
        return set(_unsealed(data, path)[1])


def _unsealed(data: bytes, path: str | None) -> tuple[dict[str, Any], list[str]]:
    """Return the content of a manifest, and the names of its files."""
    raw = json.loads(unseal(data, path))
    if raw["version"] != _VERSION:
        raise ValueError(f"version {raw['version']}")
    files = [str(name) for name in raw["files"]]
    # They become paths below the state's folder.
    for name in files:
        plain_name(name)
    return raw, files


@contextmanager
def _reading(path: str | None) -> Iterator[None]:
    """Turn what goes wrong with the content into a CorruptFileError."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise CorruptFileError(f"not a manifest of key state: {error}", path=path) from error
