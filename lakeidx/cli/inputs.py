"""Files that commands are given: relative paths, and ``-`` for standard input."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lakeidx.errors import InvalidInputError

_STDIN = "-"


def absolute(path: str) -> str:
    """Return a local path as an absolute one, so that workers elsewhere find it; URIs stay as they are."""
    return path if "://" in path or path.startswith("file:") else os.path.abspath(path)


@contextmanager
def stdin_as_file(files: Sequence[str], file_format: str | None) -> Iterator[list[str]]:
    """Return the files, ``-`` replaced by a file with what comes from standard input; it goes when the command ends.

    file_format   format of what comes
    errors        InvalidInputError when ``-`` is there twice or without a format
    """
    if _STDIN not in files:
        yield list(files)
        return
    if list(files).count(_STDIN) > 1:
        raise InvalidInputError("- can be given once: standard input is read once")
    if file_format is None:
        raise InvalidInputError("- needs --format: parquet, csv or jsonl")
    with tempfile.TemporaryDirectory(prefix="lakeidx-stdin-") as folder:
        path = Path(folder) / f"stdin.{file_format}"
        with path.open("wb") as sink:
            shutil.copyfileobj(sys.stdin.buffer, sink)
        yield [str(path) if f == _STDIN else f for f in files]
