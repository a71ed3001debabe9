"""Names and outputs of files in a store: paths by their parts, and an output that is only written."""

from __future__ import annotations

import errno
import shutil
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from lakeidx.storage.base import ObjectStore

_COPIED_BYTES = 8 << 20


class OutputFile(Protocol):
    """A file being written; it appears under its name when it is closed, and not at all when the ``with`` block fails."""

    @property
    def closed(self) -> bool:
        """True after close or abort."""
        ...

    def write(self, data: Any, /) -> int:
        """Append bytes (anything with the buffer interface); returns their number."""
        ...

    def tell(self) -> int:
        """Return the bytes written so far."""
        ...

    def flush(self) -> None:
        """Flush the buffer; does not guarantee durability."""
        ...

    def close(self) -> None:
        """Finish the file and make it visible."""
        ...

    def abort(self) -> None:
        """Abort the file and remove what was written."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None: ...


class WriteOnly:
    """The interface of Arrow's output files, and the ``with`` block of an `OutputFile`: close on success, else abort."""

    def readable(self) -> bool:
        """Return False."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return False."""
        return False

    def close(self) -> None:
        """Finish the file; the subclass defines how."""
        raise NotImplementedError

    def abort(self) -> None:
        """Abort the file; the subclass defines how."""
        raise NotImplementedError

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


def plain_name(name: str) -> str:
    """Return a file name from metadata, if it stays in its directory.

    errors   ValueError for a path, ``..`` and what no file can be called; TypeError for no text
    """
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise ValueError(f"{name!r} is not a file name: it leads out of its directory")
    return name
