"""Types of new columns where no schema part declares them: from the source's DDL words."""

from __future__ import annotations

import re

from lakeidx.types import DataType, parse_type

_WORD = re.compile(r"\s*([a-z]+(?: [a-z]+)*)\s*(?:\(([^)]*)\))?", re.IGNORECASE)
_INTS = {"tinyint": "TINYINT", "smallint": "SMALLINT", "mediumint": "INT", "int": "INT", "integer": "INT",
         "bigint": "BIGINT", "year": "INT"}  # fmt: skip
_UNSIGNED = {"TINYINT": "SMALLINT", "SMALLINT": "INT", "INT": "BIGINT", "BIGINT": "DECIMAL(20, 0)"}
_PLAIN = {"float": "FLOAT", "double": "DOUBLE", "double precision": "DOUBLE", "date": "DATE", "time": "TIME(3)",
          "boolean": "BOOLEAN", "bool": "BOOLEAN"}  # fmt: skip


def type_of_ddl(text: str) -> DataType:
    """Return the type of a column that MySQL declares as `text` (``decimal(10,2) unsigned``); text where none fits."""
    found = _WORD.match(text)
    word = found.group(1).lower().removesuffix(" zerofill").removesuffix(" unsigned") if found else ""
    arguments = [a.strip() for a in (found.group(2) or "").split(",")] if found else [""]
    unsigned = "unsigned" in text.lower()
    if word in _INTS:
        return parse_type(_UNSIGNED[_INTS[word]] if unsigned else _INTS[word])
    if word in ("decimal", "numeric"):
        digits = int(arguments[0]) if arguments[0].isdecimal() else 10
        scale = int(arguments[1]) if len(arguments) > 1 else 0
        return parse_type(f"DECIMAL({digits}, {scale})" if digits <= 38 else "STRING")
    if word in ("datetime", "timestamp"):
        fraction = int(arguments[0]) if arguments[0].isdecimal() else 0
        return parse_type(f"TIMESTAMP({fraction})")
    return parse_type(_PLAIN.get(word, "STRING"))
