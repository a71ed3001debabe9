"""Directories for caches among the temporary files: accepted only if they are this user's."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from lakeidx.errors import InvalidInputError
from lakeidx.storage.files import translate


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
