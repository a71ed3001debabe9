"""JSON metadata files: Paimon's pretty printing, and reading any layout with clear errors.

Paimon prints with Jackson's default pretty printer: two-space indent, ``"key" : value``, arrays on one line with their elements
separated by ``, `` (objects inside arrays as ``[ {`` ... ``}, {`` ... ``} ]``), empty ones as ``[ ]`` and ``{ }``, no newline at
the end.

source   org.apache.paimon.utils.JsonSerdeUtil, release 1.4.2
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

from lakeidx.errors import CorruptFileError

_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_DIGITS = re.compile(r"-?[0-9]{1,19}")


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


class JsonObject:
    """A parsed JSON object whose getters name the file and the key when something is missing or of the wrong type."""

    __slots__ = ("path", "value", "where")

    def __init__(self, value: Mapping[str, Any], path: str | None, where: str = "") -> None:
        self.value = value
        self.path = path
        self.where = where

    @classmethod
    def parse(cls, data: bytes, path: str | None) -> JsonObject:
        """Parse a file's bytes; its top value must be an object."""
        try:
            text = bytes(data).decode("utf-8")
        except UnicodeDecodeError as e:
            raise CorruptFileError(f"not UTF-8: {e.reason}", path=path, offset=e.start) from e
        try:
            value = json.loads(text, parse_float=Decimal, parse_constant=_reject_constant)
        except json.JSONDecodeError as e:
            at = len(text[: e.pos].encode())
            raise CorruptFileError(f"not JSON: {e.msg}", path=path, offset=at) from e
        except (ValueError, RecursionError, ArithmeticError) as e:
            raise CorruptFileError(f"not JSON: {e}", path=path) from e
        if not isinstance(value, dict):
            raise CorruptFileError(f"expected a JSON object, found {type(value).__name__}", path=path, offset=0)
        return cls(value, path)

    def error(self, key: str, expected: str) -> CorruptFileError:
        """Make the error of a key that is missing or not what it should be."""
        found = repr(self.value[key])[:80] if self.value.get(key) is not None else "nothing"
        return CorruptFileError(f"{self.where}{key}: expected {expected}, found {found}", path=self.path)

    def has(self, key: str) -> bool:
        """Return True when the key is there and not null."""
        return self.value.get(key) is not None

    def get_int(self, key: str) -> int | None:
        """Read a 64-bit integer, or None when absent or null; ``7.0``, ``7E0`` and ``"7"`` are 7, as for Jackson."""
        value = self.value.get(key)
        if value is None:
            return None
        if (isinstance(value, str) and _DIGITS.fullmatch(value)) or (isinstance(value, Decimal) and _is_whole(value)):
            value = int(value)
        if type(value) is not int or not _LONG_MIN <= value <= _LONG_MAX:
            raise self.error(key, "a 64-bit integer")
        return value

    def need_int(self, key: str, default: int | None = None) -> int:
        """Read a 64-bit integer that must be there, unless a default is given."""
        value = self.get_int(key)
        if value is None:
            value = default
        if value is None:
            raise self.error(key, "a 64-bit integer")
        return value

    def get_text(self, key: str) -> str | None:
        """Read the text, or None when absent or null."""
        value = self.value.get(key)
        if value is not None and (not isinstance(value, str) or not _encodable(value)):
            raise self.error(key, "text")
        return value

    def need_text(self, key: str) -> str:
        """Read a required text."""
        value = self.get_text(key)
        if value is None:
            raise self.error(key, "text")
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        """Read an array of texts; empty when absent."""
        value = self.value.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(v, str) and _encodable(v) for v in value):
            raise self.error(key, "an array of texts")
        return tuple(value)

    def string_map(self, key: str) -> dict[str, str]:
        """Read an object whose values are texts; empty when absent. Numbers and booleans are taken as their JSON text, null as
        absent.
        """
        value = self.value.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(key, "an object of texts")
        out: dict[str, str] = {}
        for name, item in value.items():
            if item is None:
                continue
            if isinstance(item, (bool, Decimal)) or type(item) is int:
                item = json.dumps(item) if isinstance(item, bool) else format(item)
            if not isinstance(item, str) or not _encodable(item) or not _encodable(name):
                raise self.error(key, "an object of texts")
            out[name] = item
        return out

    def rest(self, known: Collection[str]) -> dict[str, Any]:
        """Return unknown keys with their values, in file order: fields added by later releases."""
        out = {key: value for key, value in self.value.items() if key not in known}
        for key, value in out.items():
            if not _encodable(key) or not _encodable_inside(value):
                raise self.error(key, "text that UTF-8 can hold")
        return out

    def objects(self, key: str) -> list[JsonObject]:
        """Read an array of objects that must be there."""
        value = self.value.get(key)
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            raise self.error(key, "an array of objects")
        return [JsonObject(v, self.path, f"{self.where}{key}[{i}].") for i, v in enumerate(value)]


def _is_whole(value: Decimal) -> bool:
    return abs(value) <= _LONG_MAX + 1 and value == value.to_integral_value()


def _encodable_inside(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_encodable(k) and _encodable_inside(v) for k, v in value.items())
    if isinstance(value, list):
        return all(_encodable_inside(v) for v in value)
    return not isinstance(value, str) or _encodable(value)


def _encodable(text: str) -> bool:
    """Return False for text with lone surrogates, which JSON can spell but UTF-8 cannot."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)
