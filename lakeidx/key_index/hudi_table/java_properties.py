"""Java's ``.properties`` text: latin-1, ``\\`` escapes, ``=``, ``:`` or space between key and value, ``\\`` at line end continues.

source   java.util.Properties#load
"""

from __future__ import annotations

import re

from lakeidx.errors import CorruptFileError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"
_LINE = re.compile(r"\r\n|\r|\n")
#: Up to the first separator that no backslash stands before.
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*")


def parse_properties(data: bytes, path: str | None = None) -> dict[str, str]:
    """Read a properties file; a later value of a key wins.

    errors   CorruptFileError for a malformed ``\\uxxxx`` escape
    """
    out: dict[str, str] = {}
    for line in _logical_lines(data.decode("latin-1")):
        key = _KEY.match(line)[0]  # type: ignore[index]
        value = line[len(key) :].lstrip(_BLANK)
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(_BLANK)
        out[_unescape(key, path)] = _unescape(value, path)
    return out


def _logical_lines(text: str) -> list[str]:
    out: list[str] = []
    going_on = False
    for raw in _LINE.split(text):
        line = raw.lstrip(_BLANK)
        if not going_on and (not line or line[0] in "#!"):
            continue
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if continues:
            line = line[:-1]
        if going_on:
            out[-1] += line
        else:
            out.append(line)
        going_on = continues
    return out


def _unescape(text: str, path: str | None) -> str:
    if "\\" not in text:
        return text
    out, at = [], 0
    while at < len(text):
        if text[at] != "\\" or at + 1 == len(text):
            out.append(text[at])
            at += 1
            continue
        code = text[at + 1]
        if code == "u":
            digits = text[at + 2 : at + 6]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise CorruptFileError(f"\\u{digits} is not a character escape", path=path)
            out.append(chr(int(digits, 16)))
            at += 6
        else:
            out.append(_ESCAPES.get(code, code))
            at += 2
    # Two escapes may make one astral character.
    return "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
