"""Names of files on a local disk that go from one file to the next."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

#: As in <fcntl.h> and <linux/fs.h>.
_HERE, _EXCHANGE = -100, 2


def replace_unsynced(temp: str, target: str) -> None:
    """Rename a file over another one, or to a name that is free, of which a power cut may leave an empty file.

    ext4 writes out at once what is renamed over another file, half a millisecond; where two exchange their names it does not.
    Readers see the old or the new file either way.
    errors   OSError as of `os.replace`
    """
    exchange = _renameat2()
    if exchange is None or exchange(_HERE, os.fsencode(temp), _HERE, os.fsencode(target), _EXCHANGE):
        # There is no such file yet, or the file system cannot.
        os.replace(temp, target)
    else:
        os.unlink(temp)


@cache
def _renameat2() -> Any:
    """Return the C library's function; None where it has none."""
    found = getattr(ctypes.CDLL(None), "renameat2", None)
    if found is not None:
        found.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return found
