"""Lookup files at hand: in place on a local disk, else copied from the object store into a directory with a byte bound.

The directory may be shared by processes (executors of one machine): files appear under their name whole, and one that is removed
while another process has it mapped stays readable there. Room is made, and reserved by an unfinished file of the full size, by one
process at a time; copying continues side by side. The time a file was last used is its time of change.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import stat
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from lakeidx.errors import CorruptFileError, InvalidInputError, UnavailableError
from lakeidx.lookup.hash_store.writer import context_path
from lakeidx.lookup.listing import LookupPlaces, StoredLookup
from lakeidx.lookup.scratch_file import ScratchFile, is_disk_full, os_errors
from lakeidx.storage import LocalStore
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import translate
from lakeidx.storage.local import local_path

_log = logging.getLogger(__name__)
_COPY_BYTES = 8 << 20
DEFAULT_DISK_BYTES = 10 << 30
#: Holds the bytes that are there or being copied, at most: copies are added, what is removed shows at the next count.
_TALLY = ".tally"
#: A copy that was not written to for so long was left by a process that died.
_UNFINISHED_SECONDS = 3600


def _default_directory() -> str:
    """Return ``LAKEIDX_LOOKUP_CACHE``, or a directory of this user among the temporary files."""
    return os.environ.get("LAKEIDX_LOOKUP_CACHE") or str(private_cache("lakeidx-lookup"))


class LookupFileCache:
    """Local copies of lookup files.

    directory   made when it is first needed
    max_bytes   of all copies together, whichever process made them; a single larger file is still kept while it is used
    """

    def __init__(self, directory: str | None = None, max_bytes: int = DEFAULT_DISK_BYTES) -> None:
        self.directory = Path(directory or _default_directory())
        self.max_bytes = max_bytes
        self.downloads = 0
        self.evictions = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> tuple[str, int]:
        return str(self.directory), self.max_bytes

    def __setstate__(self, state: tuple[str, int]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def local(self, store: ObjectStore, places: LookupPlaces, file: StoredLookup) -> str | None:
        """Fetch a lookup file to a local path; None when there is no room for it even after all others were removed.

        errors   NotFoundError when the store does not have it; CorruptFileError for another size than listed
        """
        full = places.full(file.path)
        if isinstance(store, LocalStore):
            return local_path(full)
        parts = self._parts(places, file)
        target = parts[-1][1]
        with self._lock:
            if all(p.exists() for _, p in parts):
                now = time.time()
                for _, path in parts:
                    _touch(path, now)
                return str(target)
            mine = {str(path) for _, path in parts}
            for attempt in range(2):
                try:
                    for remote, path in parts:
                        size = file.size if path == target else store.size(remote)
                        self._copy(store, remote, path, size, mine, needed=self.max_bytes if attempt else size)
                except UnavailableError as error:
                    if not is_disk_full(error):
                        raise
                    continue
                if target.stat().st_size != file.size:
                    target.unlink(missing_ok=True)
                    raise CorruptFileError(f"listed with {file.size} bytes", path=full)
                self.downloads += 1
                return str(target)
        _log.warning("the disk of %s is full: reading keys of %s from its data file", self.directory, file.data_file)
        return None

    def _parts(self, places: LookupPlaces, file: StoredLookup) -> list[tuple[str, Path]]:
        """Return where the files of a lookup file are in the store and where their copies are; the lookup file itself is last."""
        full = places.full(file.path)
        # With the checksum, so that a file built again under its name is another one.
        named = hashlib.sha256(f"{full} {file.checksum}".encode()).hexdigest()[:32]
        target = self.directory / f"{named}.lookup"
        return [*((places.full(s), context_path(target)) for s in file.side_files), (full, target)]

    def _copy(
        self, store: ObjectStore, remote: str, target: Path, size: int, mine: Collection[str], *, needed: int
    ) -> None:
        with os_errors(target):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._alone():
            with os_errors(self.directory):
                self._make_room(needed, mine)
            scratch = ScratchFile(target, reserve=size)
        try:
            with store.open_input(remote) as source:
                while data := source.read(_COPY_BYTES):
                    scratch.write(data)
            scratch.commit()
        except BaseException:
            scratch.discard()
            raise

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the cache, so that one process at a time counts and evicts."""
        with os_errors(self.directory):
            lock = os.open(self.directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _make_room(self, needed: int, mine: Collection[str]) -> None:
        """Remove the files used longest ago, but none of `mine`, until `needed` more bytes fit.

        Unfinished ones count, too, and go when no one can be at them. Files are counted when the bytes that were reserved since the
        last count are too many; so a copy costs the same in a large cache.
        """
        tally = self.directory / _TALLY
        reserved = _read_tally(tally)
        if reserved is not None and reserved + needed <= self.max_bytes:
            tally.write_text(str(reserved + needed), encoding="ascii")
            return
        tally.unlink(missing_ok=True)
        used = self._evict(needed, mine)
        tally.write_text(str(used + needed), encoding="ascii")

    def _evict(self, needed: int, mine: Collection[str]) -> int:
        """Count the files, and remove some when they are too many; returns the bytes that are left."""
        found, used = [], 0
        oldest = time.time() - _UNFINISHED_SECONDS
        for entry in os.scandir(self.directory):
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            used += status.st_size
            if entry.path not in mine and (not entry.name.endswith(".tmp") or status.st_mtime < oldest):
                found.append((status.st_mtime, status.st_size, entry.path))
        for _, size, path in sorted(found):
            if used + needed <= self.max_bytes:
                break
            Path(path).unlink(missing_ok=True)
            used -= size
            self.evictions += 1
        return used


def _read_tally(tally: Path) -> int | None:
    """Return the bytes that are there and reserved, at most; None when that was not, or not wholly, written down."""
    try:
        return int(tally.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None


def _touch(path: Path, now: float) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.utime(path, (now, now))


def private_cache(name: str) -> Path:
    """Make or check ``<temporary files>/<name>-<user id>``; no one else can read or write it.

    Names among the temporary files are open to all users: another writer may have made the directory, or a link, first.

    returns   the directory, mode 0700
    errors    InvalidInputError when it is not this user's own; UnavailableError
    """
    path = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise InvalidInputError("the cache directory is a link or another user's: remove it", path=str(path))
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.chmod(path, 0o700)
    except OSError as error:
        raise translate(error, str(path)) from error
    return path
