"""JSON text of Paimon's metadata files, as Jackson prints it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

_SPECIAL = re.compile(r'[\x00-\x1f"\\]')


# Jackson's spelling: upper-case hex for control characters without a short form, everything else as it is.
_ESCAPES = {chr(n): f"\\u{n:04X}" for n in range(32)} | {
    c: f"\\{short}" for c, short in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)
}


def format_json(value: Any) -> bytes:
    """Format as pretty-printed JSON, as Paimon does."""
    return _text(value, "\n").encode()


def flat_json(value: Any) -> str:
    """Format as JSON in one line without blanks, as Paimon does in system tables."""
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{_quoted(k)}:{flat_json(v)}' for k, v in value.items())}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{','.join(map(flat_json, value))}]"
    return _text(value, "")


def _text(value: Any, line: str) -> str:
    """Format a value; `line` begins each line of the object that it is in: a newline, and spaces."""
    if type(value) is str:
        return _quoted(value)
    if type(value) is int:
        return repr(value)
    if isinstance(value, Mapping):
        inside = line + "  "
        pairs = [f"{inside}{_quoted_key(key)} : {_text(item, inside)}" for key, item in value.items()]
        return f"{{{','.join(pairs)}{line}}}" if pairs else "{ }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[ {', '.join([_text(item, line) for item in value])} ]" if value else "[ ]"
    if isinstance(value, Decimal):
        return format(value, "f")
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return f'"{_SPECIAL.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES[found[0]]


#: Keys are the same in each file of a kind.
_quoted_key = lru_cache(maxsize=1024)(_quoted)
