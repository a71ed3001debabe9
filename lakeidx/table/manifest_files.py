"""Reads manifests, their lists and index manifests, side by side, and keeps what was decoded, bounded by its bytes.

They are written once under a name that is never used again, so what was read stays true. So are HASH index files, which are kept
apart (`lakeidx.table.index_files`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Sequence, Sized
from operator import attrgetter
from typing import TypeVar

from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.errors import CorruptFileError
from lakeidx.format.index_manifest import IndexEntry, decode_index_manifest
from lakeidx.format.manifest_list import ManifestFileMeta, decode_manifest_list
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.decoded_files import Decoded, DecodedFiles
from lakeidx.table.entries import Entries, KeepPartitions, joined
from lakeidx.tasks.in_parallel import REQUESTS, in_parallel, requests_of
from lakeidx.tasks.limits import available_cores

T = TypeVar("T", bound=Sized)
_NAME, _SIZE = attrgetter("file_name"), attrgetter("file_size")

#: Bytes of manifests, as they are held, that are kept.
_MANIFEST_CACHE_BYTES = 64 << 20
#: Bytes of HASH index files that a process keeps: 16 M hashes.
_HASH_CACHE_BYTES = 64 << 20
#: An index manifest up to so many bytes is decoded whole and kept, whatever part of it is asked for.
_PRUNED_INDEX_BYTES = 64 << 10
#: Bytes of an entry of a list or index manifest in memory.
_OBJECT_BYTES = 512
#: An index manifest up to so many bytes is kept as it lies.
_KEPT_INDEX_BYTES = 4 << 20
#: As many entries of a table at most are held in one piece until others are asked for.
KEPT_ENTRIES = 20_000
#: Bytes of manifests that are read at a time and not decoded yet.
_IN_FLIGHT_BYTES = 32 << 20
#: Bytes of manifests that one thread reads from a local disk, and decodes, as fast as several.
_FEW_BYTES = 1 << 20
_SCHEME = re.compile(r"^(?P<scheme>[a-z][a-z0-9+.-]*):/*", re.IGNORECASE)
_SAME_STORE = {"s3a": "s3", "s3n": "s3"}


class ManifestFiles:
    """The manifests of one table directory.

    store        where the table lies
    paths        names of its files
    hash_files   HASH index files that this process has read, as ascending int32[n]
    last_live    names of the manifest lists and the partitions that were asked for last, and the files that are live by them
    """

    last_live: tuple[tuple[object, ...], Entries] | None

    def __init__(self, store: ObjectStore, paths: TablePaths) -> None:
        self.store = store
        self.paths = paths
        self.hash_files = DecodedFiles(_HASH_CACHE_BYTES)
        self.last_live = None
        self._cache = DecodedFiles(_MANIFEST_CACHE_BYTES)
        self._last_index: tuple[str, bytes] | None = None
        # The manifests that were joined last, and their entries with the objects that were made of them: the next state of a table
        # mostly has them and a few more.
        self._joined: tuple[tuple[str, ...], Entries] | None = None
        # Requests wait side by side; decoding takes processors and memory, one of each at a time.
        self._decoding = threading.Semaphore(available_cores())

    def all_schemas(self) -> list[TableSchema]:
        """Return every schema the table has had."""
        raise NotImplementedError

    def load_manifest_list(self, name: str, size: int | None = None) -> list[ManifestFileMeta]:
        """Read the entries of one manifest list, of `size` bytes if the snapshot records it."""
        return self._cached(self.paths.manifest_path(name), decode_manifest_list, size=size)

    def load_manifest(self, name: str, size: int | None = None) -> Entries:
        """Read the entries of one manifest, of `size` bytes by its list, in file order."""
        return self._cached(self.paths.manifest_path(name), self._decode_manifest, size=size)

    def load_manifests(
        self, metas: Sequence[ManifestFileMeta], *, keep: KeepPartitions | None = None, hold: bool = True
    ) -> Entries:
        """Read the entries of manifests, in order, side by side.

        keep, hold   as `lakeidx.table.entry_decoder.decode_entries` takes them: what is left out is never held
        """
        # What does not fit the cache would only push itself out of it: it is read anew each time, as little as is asked for.
        fits = sum(map(_SIZE, metas)) <= _MANIFEST_CACHE_BYTES

        def read(meta: ManifestFileMeta) -> Entries:
            path = self.paths.manifest_path(meta.file_name)
            if not fits and path not in self._cache:
                data = self.store.get(path)
                _check_size(len(data), meta.file_size, path)
                return self._decode_manifest(data, path, keep=keep, hold=hold)
            return self.load_manifest(meta.file_name, meta.file_size)

        # Threads are for waiting: what is there already needs none.
        new = [m.file_size for m in metas if self.paths.manifest_path(m.file_name) not in self._cache]
        few = not new or (not self.store.waits and sum(new) < _FEW_BYTES)
        threads = 1 if few else min(REQUESTS, max(2, _IN_FLIGHT_BYTES // max(1, *new)))
        if not fits:
            return joined(in_parallel(read, metas, threads=threads))
        names = (*map(_NAME, metas),)
        before = self._joined
        known = 0 if before is None or before[0] != names[: len(before[0])] else len(before[0])
        first = [before[1]] if known and before is not None else []
        found = joined([*first, *in_parallel(read, metas[known:], threads=threads)])
        self._joined = (names, found) if len(found) <= KEPT_ENTRIES else None
        return found if keep is None else found.of_partitions(keep)

    def keep_manifest(self, name: str, entries: Entries, size: int) -> None:
        """Keep a manifest that this process has written, of `size` bytes."""
        self._cache.keep(self.paths.manifest_path(name), Decoded(entries, size, entries.nbytes))

    def keep_manifest_list(self, name: str, metas: list[ManifestFileMeta], size: int) -> None:
        """Keep a manifest list that this process has written, of `size` bytes."""
        self._cache.keep(self.paths.manifest_path(name), Decoded(metas, size, size))

    def _decode_manifest(
        self, data: bytes, path: str, *, keep: KeepPartitions | None = None, hold: bool = True
    ) -> Entries:
        from lakeidx.table.entry_decoder import decode_entries

        def check(external: list[str]) -> None:
            _check_external_paths(external, self.paths.root, self.all_schemas, path)

        with self._decoding:
            entries = decode_entries(data, path, external=check, keep=keep, hold=hold)
        _check_partitions(entries.known, path)
        return entries

    def load_index_manifest(self, name: str | None, *, partitions: Collection[bytes] | None = None) -> list[IndexEntry]:
        """Read the entries of one index manifest, of some partitions or all; none for a snapshot without."""
        if name is None:
            return []

        path = self.paths.manifest_path(name)
        if partitions is None:
            last = self._last_index
            return self._cached(path, self._decode_index, last[1] if last is not None and last[0] == name else None)
        wanted = frozenset(partitions)
        if path not in self._cache:
            data = self._index_manifest_bytes(name)
            if len(data) > _PRUNED_INDEX_BYTES:
                return self._decode_index(data, path, partitions=wanted)
            self._cached(path, self._decode_index, data)
        return [e for e in self._cached(path, self._decode_index) if e.partition in wanted]

    def _index_manifest_bytes(self, name: str) -> bytes:
        """Read the bytes of an index manifest; those of the one that was read last are kept, for other partitions of it."""
        last = self._last_index
        if last is None or last[0] != name:
            last = name, self.store.get(self.paths.manifest_path(name))
            self._last_index = last if len(last[1]) <= _KEPT_INDEX_BYTES else None
        return last[1]

    def keep_index_manifest(self, name: str, data: bytes, entries: Sequence[IndexEntry]) -> None:
        """Keep the entries of an index manifest that this process has written as these bytes."""
        held = list(entries)
        self._cache.keep(self.paths.manifest_path(name), Decoded(held, len(data), _held_bytes(held, len(data))))

    def _decode_index(self, data: bytes, path: str, *, partitions: Collection[bytes] | None = None) -> list[IndexEntry]:
        entries = decode_index_manifest(data, path, partitions=partitions)
        _check_partitions({e.partition for e in entries}, path)
        _check_external_paths((e.external_path for e in entries), self.paths.root, self.all_schemas, path)
        return entries

    def data_manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return all data manifests of a snapshot: base list, then delta list."""
        s = snapshot
        lists = [
            (s.base_manifest_list, s.base_manifest_list_size),
            (s.delta_manifest_list, s.delta_manifest_list_size),
        ]
        found = in_parallel(lambda each: self.load_manifest_list(*each), lists, threads=requests_of(self.store))
        return [*found[0], *found[1]]

    def _cached(
        self, path: str, decode: Callable[[bytes, str], T], data: bytes | None = None, *, size: int | None = None
    ) -> T:
        hit = self._cache.find(path)
        if hit is not None:
            _check_size(hit.size, size, path)
            found: T = hit.value
            return found
        if data is None:
            data = self.store.get(path)
        _check_size(len(data), size, path)
        value = decode(data, path)
        self._cache.keep(path, Decoded(value, len(data), _held_bytes(value, len(data))))
        return value


def _held_bytes(value: Sized, size: int) -> int:
    """Return the bytes that a decoded file of so many takes in memory."""
    return value.nbytes if isinstance(value, Entries) else max(size, _OBJECT_BYTES * len(value))


def _check_size(found: int, size: int | None, path: str) -> None:
    """Compare a file's bytes with the recorded size, if there is one: Avro cannot notice missing blocks.

    errors   CorruptFileError
    """
    if size is not None and found != size:
        raise CorruptFileError(f"the file has {found} bytes, not {size} as the file that names it says", path=path)


def _check_partitions(partitions: Iterable[bytes], path: str) -> None:
    """Check the distinct partitions of a manifest's entries: later it is unknown which manifest one came from.

    errors   CorruptFileError
    """
    for partition in partitions:
        try:
            split_arity(partition)
        except CorruptFileError as error:
            raise CorruptFileError(f"the partition of an entry: {error}", path=path) from error


def _check_external_paths(
    external: Iterable[str | None], root: str, schemas: Callable[[], Iterable[TableSchema]], path: str
) -> None:
    """Refuse external paths (``_EXTERNAL_PATH``) that the options of no schema of the table allow.

    Such a file is read, and deleted at expiry: it must be below the table's directory, or below a path of option
    ``data-file.external-paths``. Files stay where they are when the option changes.
    external   as manifest entries have them; None for files of the table's own directories
    schemas    gives all schemas of the table; called only when there is an external path
    path       the manifest, for the message
    errors     CorruptFileError
    """
    named = {e for e in external if e is not None}
    if not named:
        return
    allowed = [root, *(place for schema in schemas() for place in _places(schema))]
    prefixes = tuple(f"{_canonical(place).rstrip('/')}/" for place in allowed)
    for found in sorted(named):
        if ".." in found.split("/") or not _canonical(found).startswith(prefixes):
            raise CorruptFileError(
                f"an entry names the file {found!r}, which is neither in the table nor below a path of option "
                "'data-file.external-paths'",
                path=path,
            )


def _places(schema: TableSchema) -> list[str]:
    options = schema.table_options
    listed = [*(options.data_file_external_paths or "").split(","), options.global_index_external_path or ""]
    return [place.strip() for place in listed if place.strip()]


def _canonical(uri: str) -> str:
    """Normalize a path or URI: ``file:///x`` as ``/x``, ``s3a://b/x`` as ``s3://b/x``."""
    match = _SCHEME.match(uri)
    if match is None:
        return uri
    scheme, rest = match["scheme"].lower(), uri[match.end() :]
    return f"/{rest}" if scheme == "file" else f"{_SAME_STORE.get(scheme, scheme)}://{rest}"
