"""Errors of the operating system, converted to lakeidx's."""

from __future__ import annotations

import errno

from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError, UnavailableError

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
