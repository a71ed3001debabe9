"""Compressed landing files (gzip, Zstandard) and texts of other encodings: read in pieces like plain ones, as UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lakeidx.errors import CorruptFileError
from lakeidx.landing.text.shares import ShareSource, TextShare
from lakeidx.storage.base import ObjectStore, innermost

#: Encodings that are UTF-8 already.
_UTF8 = ("utf-8", "utf-8-sig", "ascii")
#: Byte order marks; that of UTF-32 begins with that of UTF-16.
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
          codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}  # fmt: skip
_BROKEN = "lakeidx-broken"
# What is no text of its encoding becomes a byte that no UTF-8 text has, so that its row is rejected with its line.
codecs.register_error(_BROKEN, lambda error: ("\udcff", error.end))  # type: ignore[attr-defined]
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
def open_plain(
    store: ObjectStore, path: str, share: TextShare | None = None, *, encoding: str | None = None
) -> Iterator[Any]:
    """Open a landing text for reading as UTF-8, whatever its compression and encoding; memory follows the pieces that are read.

    share     of a file that is not compressed, in UTF-8: only its bytes
    encoding  of a file without a byte order mark; None: UTF-8
    errors    NotFoundError; CorruptFileError from `read`, with the offset in the compressed file
    """
    with store.open_input(path) as source:
        codec = _codec_of(path)
        if share is not None:
            yield ShareSource(source, share)
        else:
            yield _Decoded(source if codec is None else _Decompressed(source, codec, path), encoding)


def encoding_of(first: bytes, encoding: str | None) -> str | None:
    """Return the encoding of a text by its first bytes, or else the given one; None for UTF-8."""
    found = next((name for mark, name in _MARKS.items() if first.startswith(mark)), encoding or "utf-8")
    return None if codecs.lookup(found).name in _UTF8 else found


def not_text(encoding: str | None) -> str:
    """Return why a row is rejected whose bytes are no text."""
    if encoding is not None:
        return f"not {encoding} text"
    return "not UTF-8 text; when the file has another encoding, name it (--encoding cp1252)"


class _Decoded:
    """The bytes of a text in UTF-8. UTF-8 stays as it is, its mark too."""

    def __init__(self, source: Any, encoding: str | None) -> None:
        self._source, self._encoding = source, encoding
        self._decoder: codecs.IncrementalDecoder | None = None
        self._begun = False

    def read(self, size: int) -> bytes:
        """Read some bytes; none at the end."""
        while data := bytes(self._source.read(size)):
            if not self._begun:
                self._begun, found = True, encoding_of(data, self._encoding)
                self._decoder = None if found is None else codecs.getincrementaldecoder(found)(_BROKEN)
            if self._decoder is None:
                return data
            if text := self._decoder.decode(data):
                return text.encode("utf-8", "surrogateescape")
        rest = "" if self._decoder is None else self._decoder.decode(b"", final=True)
        self._decoder = None
        return rest.encode("utf-8", "surrogateescape")


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
