"""The object store port: every operation that lakeidx needs from a place of tables.

Paths are full strings in the caller's spelling (``/lake/db.db/t/snapshot/LATEST``, ``file:///lake/...``,
``s3://bucket/lake/...``); paths given back start with the directory that was requested. A directory exists as soon as a file lies
below it; a missing one lists as empty.

Errors of every method: NotFoundError for a missing file, InvalidInputError where access is denied, UnavailableError when the
store does not answer after retries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from lakeidx.storage.files import OutputFile

#: Object stores of clouds, by the scheme of a URI.
CLOUD_OF = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("az", "azure", "abfs", "abfss"), "az"),
}


class FileInfo(NamedTuple):
    """One entry of a listing.

    path      full path; name: its last part
    size      bytes; 0 for directories
    mtime_ms  last modification, epoch milliseconds; 0 where the store does not say (directories of object stores). Two contents of
              one name may have one time: disks have ticks of some ms, object stores of a second
    etag      the store's mark of the content, which no other content of that name has; None on disks
    """

    path: str
    name: str
    size: int
    mtime_ms: int
    is_dir: bool
    etag: str | None = None


@runtime_checkable
class ObjectStore(Protocol):
    """Port of an object store. Objects are cheap, thread-safe and pickle (their connections do not travel).

    What a store does no better than by the other methods is here.
    """

    @property
    def uri(self) -> str:
        """Any path inside the store, as given to `open_store`."""
        ...

    @property
    def place(self) -> str:
        """Name of the server and bucket, or the disk, that a probe of conditional puts is valid for. No secrets in it."""
        ...

    @property
    def waits(self) -> bool:
        """True when requests wait for another machine, so that several at once pay off even for a few small files."""
        return False

    def fresh_session(self) -> ObjectStore:
        """Return the same store with connections of its own; itself where it has none."""
        return self

    def get(self, path: str) -> bytes:
        """Read the whole file."""
        ...

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Read bytes offset .. offset + length; fewer when the file ends before."""
        return self.get_ranges(path, [(offset, length)])[0]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (offset, length) of one file, fetched side by side where that helps."""
        ...

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        ...

    def info(self, path: str) -> FileInfo | None:
        """Return what is known of one file, None when there is no file of that name."""
        ...

    def exists(self, path: str) -> bool:
        """Return True when a file or a directory has that name."""
        return self.info(path) is not None or any(True for _ in self.walk(path))

    def list(self, dir: str) -> list[FileInfo]:
        """List the files and directories directly below, sorted by name; empty when the directory is missing. Never stale."""
        ...

    def walk(self, dir: str) -> Iterator[FileInfo]:
        """List all files below, at any depth, without directories; order not defined."""
        ...

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write or replace a file; readers see the old or the new content, never a part. It survives a power cut.

        durable   False for what is made again when it is missing or broken: a power cut may take or empty it
        """
        ...

    def put_many(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Write files, side by side where that helps; an error may leave any of them."""
        for path, data in files:
            self.put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file that must not exist: True when this call made it, False when it was there (then nothing changed).

        Of any number of callers racing for one path exactly one gets True, and readers never see a part of the content.
        errors   CommitUnknownError when the store did not confirm the write of the file: read it back; UnavailableError when it
                 certainly did not
        """
        ...

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is fine."""
        ...

    def delete_many(self, paths: Iterable[str]) -> None:
        """Remove files, many per request where the store can; missing ones are fine."""
        for path in paths:
            self.delete(path)

    def delete_empty_dir(self, dir: str) -> bool:
        """Remove a directory if it is empty; return True when it does not exist any more. Stores without directories do nothing."""
        return not any(True for _ in self.walk(dir))

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open a file for random access by Arrow's readers; `size`, when the caller knows it, saves a request."""
        ...

    def open_output(self, path: str) -> OutputFile:
        """Write a file in pieces (Arrow's writers); replaces an existing one."""
        ...


def kind_of_store(uri: str) -> str:
    """Return the cloud of a URI, its scheme where it is of none, and nothing for a local path."""
    scheme, mark, _ = uri.partition("://")
    name = scheme.lower() if mark else "file"
    return "" if name == "file" else CLOUD_OF.get(name, name)


def innermost(path: str) -> str:
    """Return the part of a chained URL that names the file: ``zip://a.csv`` of ``zip://a.csv::/x.zip``; else the path."""
    first, mark, _ = path.partition("::")
    return first if mark and "://" in first else path
