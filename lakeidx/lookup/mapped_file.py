"""A whole local file as read-only memory."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.lookup.scratch_file import os_errors


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
