"""Types of new columns where no schema part declares them: from the source's DDL words, and from those of AWS DMS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lakeidx.types import DataType, parse_type

_WORD = re.compile(r"\s*([a-z]+(?: [a-z]+)*)\s*(?:\(([^)]*)\))?", re.IGNORECASE)
_INTS = {"tinyint": "TINYINT", "smallint": "SMALLINT", "mediumint": "INT", "int": "INT", "integer": "INT",
         "bigint": "BIGINT", "year": "INT"}  # fmt: skip
_UNSIGNED = {"TINYINT": "SMALLINT", "SMALLINT": "INT", "INT": "BIGINT", "BIGINT": "DECIMAL(20, 0)"}
_PLAIN = {"float": "FLOAT", "double": "DOUBLE", "double precision": "DOUBLE", "date": "DATE", "time": "TIME(3)",
          "boolean": "BOOLEAN", "bool": "BOOLEAN", "real": "DOUBLE"}  # fmt: skip
_DMS = {"BOOLEAN": "BOOLEAN", "DATE": "DATE", "TIME": "TIME(3)", "DATETIME": "TIMESTAMP(6)", "INT1": "TINYINT",
        "INT2": "SMALLINT", "INT4": "INT", "INT8": "BIGINT", "UINT1": "SMALLINT", "UINT2": "INT", "UINT4": "BIGINT",
        "UINT8": "DECIMAL(20, 0)", "REAL4": "FLOAT", "REAL8": "DOUBLE"}  # fmt: skip


def type_of_ddl(text: str) -> DataType:
    """Return the type of a column that a database declares as `text` (``decimal(10,2) unsigned``); text where none fits."""
    found = _WORD.match(text)
    word = found.group(1).lower() if found else ""
    for tail in (" zerofill", " unsigned", " identity"):
        word = word.removesuffix(tail)
    arguments = [a.strip() for a in (found.group(2) or "").split(",")] if found else [""]
    unsigned = "unsigned" in text.lower()
    if word in _INTS:
        return parse_type(_UNSIGNED[_INTS[word]] if unsigned else _INTS[word])
    if word in ("decimal", "numeric", "number"):
        return _decimal(_number(arguments[0]) if arguments[0] else 10, _number(arguments[1]) if arguments[1:] else 0)
    if word in ("datetime", "timestamp"):
        fraction = _number(arguments[0]) or 0
        return parse_type(f"TIMESTAMP({fraction if fraction <= 9 else 6})")
    return parse_type(_PLAIN.get(word, "STRING"))


def type_of_dms(column: Mapping[str, Any]) -> DataType:
    """Return the type of a column of a table definition of AWS DMS; text where none fits."""
    word = str(column.get("type", "")).upper()
    if word == "NUMERIC":
        return _decimal(column.get("precision"), column.get("scale"))
    return parse_type(_DMS.get(word, "STRING"))


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _decimal(digits: Any, scale: Any) -> DataType:
    """Return a decimal; text for one that no table has."""
    fits = isinstance(digits, int) and isinstance(scale, int) and 0 <= scale <= digits <= 38 and digits > 0
    return parse_type(f"DECIMAL({digits}, {scale})" if fits else "STRING")
