"""Compressed landing files (gzip, Zstandard): text formats may come so, and are read in pieces like plain ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lakeidx.errors import CorruptFileError
from lakeidx.landing.text.shares import ShareSource, TextShare
from lakeidx.storage.base import ObjectStore, innermost

#: Ending of a file -> Arrow's name of the codec.
CODECS = {".gz": "gzip", ".zst": "zstd"}


def _codec_of(path: str) -> str | None:
    """Find the codec of a landing file by its ending; None for a plain file."""
    return next((codec for suffix, codec in CODECS.items() if innermost(path).lower().endswith(suffix)), None)


def without_codec(path: str) -> str:
    """Strip the ending of a codec: ``day.csv.gz`` is a ``.csv`` file; of a file in an archive also the archive."""
    name = innermost(path)
    return next((name[: -len(suffix)] for suffix in CODECS if name.lower().endswith(suffix)), name)


@contextmanager
def open_plain(store: ObjectStore, path: str, share: TextShare | None = None) -> Iterator[Any]:
    """Open a landing file for reading its plain bytes, whatever its compression; memory follows the pieces that are read.

    share    of a file that is not compressed: only its bytes
    errors   NotFoundError; CorruptFileError from `read`, with the offset in the compressed file
    """
    with store.open_input(path) as source:
        codec = _codec_of(path)
        if share is not None:
            yield ShareSource(source, share)
        else:
            yield source if codec is None else _Decompressed(source, codec, path)


class _Decompressed:
    """The bytes of a compressed file; damage is an error that names the file."""

    def __init__(self, source: Any, codec: str, path: str) -> None:
        self._source = source if isinstance(source, pa.NativeFile) else pa.PythonFile(source, mode="r")
        self._plain = pa.CompressedInputStream(self._source, codec)
        self._codec, self._path = codec, path

    def read(self, size: int) -> bytes:
        try:
            return bytes(self._plain.read(size))
        except (OSError, pa.ArrowException) as error:
            raise CorruptFileError(
                f"not a whole {self._codec} file: {error}", path=self._path, offset=self._source.tell()
            ) from error
