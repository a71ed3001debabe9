"""Files that commands are given: relative paths, and ``-`` for standard input."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lakeidx.errors import InvalidInputError, LakeIdxError
from lakeidx.landing.types import ROW_FORMATS, STDIN_FOLDER, change_formats, shown_source
from lakeidx.storage.local import absolute

_STDIN = "-"
#: How compressed texts begin, and their ending.
_CODECS = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}
_COLUMNAR = ("parquet", "arrow")


@contextmanager
def stdin_as_file(files: Sequence[str], file_format: str | None) -> Iterator[list[str]]:
    """Return the files, ``-`` replaced by a temporary file with the content of standard input, deleted when the command ends.

    file_format   format of what comes
    errors        InvalidInputError when ``-`` is there twice or without a format; errors of what is done with the files name
                  ``stdin`` for the one that stands for it
    """
    if _STDIN not in files:
        yield list(files)
        return
    if list(files).count(_STDIN) > 1:
        raise InvalidInputError("- can be given once: standard input is read once")
    if file_format is None:
        raise InvalidInputError(f"- needs --format: {', '.join((*ROW_FORMATS, *change_formats()))}")
    with tempfile.TemporaryDirectory(prefix=STDIN_FOLDER) as folder:
        path = Path(folder) / f"stdin.{file_format}"
        with path.open("wb") as sink:
            shutil.copyfileobj(sys.stdin.buffer, sink)
        if file_format not in _COLUMNAR:
            path = path.rename(path.with_name(path.name + _codec_ending(path)))
        try:
            yield [str(path) if f == _STDIN else f for f in files]
        except LakeIdxError as error:
            error.path = None if error.path is None else shown_source(error.path)
            raise


@contextmanager
def key_file(path: str) -> Iterator[str]:
    """Return the file with keys as an absolute path; ``-`` is JSON lines on standard input."""
    with stdin_as_file([path], "jsonl") as given:
        yield absolute(given[0])


def _codec_ending(path: Path) -> str:
    """Return the ending of a compressed text by its first bytes, "" of a plain one."""
    with path.open("rb") as source:
        first = source.read(4)
    return next((ending for magic, ending in _CODECS.items() if first.startswith(magic)), "")
