"""What Arrow raises on a file that is damaged, as an error of lakeidx."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from lakeidx.errors import CorruptFileError, LakeIdxError, UnavailableError

# What Arrow raises on bytes that are no Parquet file, or a damaged one.
_DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, MemoryError, OverflowError)


@contextlib.contextmanager
def damage_of(path: str) -> Iterator[None]:
    """Convert what Arrow raises on damaged bytes into CorruptFileError, and a failing disk into UnavailableError."""
    try:
        yield
    except LakeIdxError as e:
        e.path = e.path or path
        raise
    except _DAMAGE as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise UnavailableError(f"the file could not be read: {e}", path=path) from e
        text = str(e).strip().split("\n")[0]
        raise CorruptFileError(f"not a readable data file: {text or type(e).__name__}", path=path) from e
