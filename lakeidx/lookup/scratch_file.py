"""Local files that appear under their name only when they are whole."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.checksum import Bytes
from lakeidx.errors import CorruptFileError, InvalidInputError, LakeIdxError, NotFoundError, UnavailableError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def is_disk_full(error: BaseException) -> bool:
    """Return True for the UnavailableError of a full disk (or quota): free space, then try again."""
    return (
        isinstance(error, UnavailableError) and isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL
    )


@contextmanager
def os_errors(path: Path) -> Iterator[None]:
    """Convert an OSError on a local file into the kind of error the caller can act on."""
    try:
        yield
    except FileNotFoundError as e:
        raise NotFoundError("no such file", path=str(path)) from e
    except (PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError) as e:
        raise InvalidInputError(f"cannot be used: {e.strerror}", path=str(path)) from e
    except OSError as e:
        what = "the disk is full" if e.errno in _FULL else f"the disk failed: {e.strerror}"
        raise UnavailableError(what, path=str(path)) from e


class ScratchFile:
    """A file written under a temporary name beside its target, moved there by `commit`.

    Not synced to disk: these files can be built again, and their checksums show when a crash lost some of them.

    path     where it will appear; missing folders are made
    reserve  bytes that it will have: the unfinished file has that size from the start, for those who count
    errors   UnavailableError for a full or failing disk (see `is_disk_full`), InvalidInputError for a path that cannot be written;
             the unfinished file is removed before the error is raised
    """

    def __init__(self, path: str | os.PathLike[str], *, reserve: int = 0) -> None:
        self.path = Path(path)
        self._temp = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex}.tmp")
        self.size = 0
        with os_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd: int | None = os.open(self._temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            if reserve:
                os.truncate(self._fd, reserve)

    def write(self, *parts: Bytes) -> None:
        """Append the parts."""
        try:
            with os_errors(self.path):
                for part in parts:
                    view = memoryview(part).cast("B")
                    while len(view):
                        done = os.write(self._open_fd(), view)
                        view = view[done:]
                        self.size += done
        except LakeIdxError:
            self.discard()
            raise

    def commit(self) -> None:
        """Rename the file to its final name, replacing an existing one."""
        try:
            with os_errors(self.path):
                os.truncate(self._open_fd(), self.size)
                os.close(self._open_fd())
                self._fd = None
                os.replace(self._temp, self.path)
        except LakeIdxError:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the unfinished file; nothing after `commit`."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._temp.unlink(missing_ok=True)

    def _open_fd(self) -> int:
        if self._fd is None:
            raise InvalidInputError("the file is closed", path=str(self.path))
        return self._fd


def map_file(path: str | os.PathLike[str], *, expected_size: int | None = None) -> npt.NDArray[np.uint8]:
    """Map a file; the mapping lasts as long as arrays over it.

    The file must not be cut or rewritten in place while mapped (lakeidx replaces files by renaming).
    expected_size  refuse another size
    returns        uint8[size], read-only; valid also after the file is deleted
    errors         NotFoundError, InvalidInputError, UnavailableError; CorruptFileError for another size
    """
    path = Path(path)
    with os_errors(path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise InvalidInputError("is not a file", path=str(path))
            size = status.st_size
            mapping = mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else b""
        finally:
            os.close(fd)
    if expected_size is not None and size != expected_size:
        raise CorruptFileError(
            f"expected {expected_size} bytes, found {size}", path=str(path), offset=min(size, expected_size)
        )
    return np.frombuffer(mapping, np.uint8)
