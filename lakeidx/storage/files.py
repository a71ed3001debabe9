"""Names and outputs of files in a store: paths by their parts, and an output that is only written."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from lakeidx.storage.base import ObjectStore

_COPIED_BYTES = 8 << 20


class OutputFile:
    """A file being written, as Arrow takes it; it appears under its name when it is closed.

    In a ``with`` block it is closed at the end, and aborted when the block fails: then it does not appear at all.
    """

    @property
    def closed(self) -> bool:
        """True after close or abort."""
        raise NotImplementedError

    def write(self, data: Any, /) -> int:
        """Append bytes (anything with the buffer interface); returns their number."""
        raise NotImplementedError

    def tell(self) -> int:
        """Return the bytes written so far."""
        raise NotImplementedError

    def flush(self) -> None:
        """Flush the buffer, where there is something behind it; does not guarantee durability."""

    def close(self) -> None:
        """Finish the file and make it visible."""
        raise NotImplementedError

    def abort(self) -> None:
        """Abort the file and remove what was written."""
        raise NotImplementedError

    def readable(self) -> bool:
        """Return False."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return False."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if exc_type is None:
            self.close()
        else:
            self.abort()


def join(dir: str, *names: str) -> str:
    """Join a path below a directory."""
    return "/".join((dir.rstrip("/") or "", *names))


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rstrip("/").rpartition("/")[2]


def parent_of(path: str) -> str:
    """Return the directory a path is in."""
    return path.rstrip("/").rpartition("/")[0] or "/"


def copy_file(store: ObjectStore, path: str, to: str) -> None:
    """Copy a file of a store, through this process."""
    with store.open_input(path) as source, store.open_output(to) as target:
        shutil.copyfileobj(source, target, _COPIED_BYTES)


#: There is no such file, nor may there be one.
MISSING = (FileNotFoundError, NotADirectoryError)


#: There is no room; that may pass, when someone makes some.
FULL = (errno.ENOSPC, errno.EDQUOT)


def translate(e: OSError, path: str) -> LakeIdxError:
    """Convert an operating system error to lakeidx's."""
    if isinstance(e, MISSING):
        return NotFoundError("no such file", path=path)
    if isinstance(e, IsADirectoryError):
        return NotFoundError("this is a directory, not a file", path=path)
    if isinstance(e, PermissionError) or e.errno == errno.EROFS:
        return InvalidInputError(f"access denied: {e.strerror}", path=path)
    if e.errno in (errno.ENAMETOOLONG, errno.EINVAL):
        return InvalidInputError(f"not a usable path: {e.strerror}", path=path)
    return UnavailableError(f"the file system reported: {e.strerror or e}", path=path)


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise an operating system's error as one of lakeidx's."""
    try:
        yield
    except OSError as e:
        raise translate(e, path) from e


def plain_name(name: str) -> str:
    """Return a file name from metadata, if it stays in its directory.

    errors   ValueError for a path, ``..`` and what no file can be called; TypeError for no text
    """
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise ValueError(f"{name!r} is not a file name: it leads out of its directory")
    return name
