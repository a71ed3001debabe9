"""The released Java Paimon as a witness (tests/oracle): a table as its commands see it, and values as it prints them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from lakeidx.types import BYTES_ROOTS, INT_ROOTS, TIMESTAMP_ROOTS, DataType, Root
from tests.kit.java_tools import require_java_paimon, witness

__all__ = ["JavaPaimon", "from_java", "java_hashes", "require_java_paimon", "to_text"]

_EPOCH = date(1970, 1, 1)


class JavaPaimon:
    """Commands on one table.

    warehouse   folder or s3:// prefix
    name        database.table
    """

    def __init__(self, warehouse: str, name: str, environment: Mapping[str, str] | None = None) -> None:
        self.warehouse = warehouse
        self.name = name
        self.environment = dict(environment or {})

    def run(self, command: str, *arguments: str) -> list[str]:
        """Lines of stdout; AssertionError with Java's words when it fails."""
        return witness([command, self.warehouse, self.name, *arguments], self.environment)

    def json(self, command: str, *arguments: str) -> list[Any]:
        """Lines as JSON."""
        return [json.loads(line) for line in self.run(command, *arguments)]

    def write(
        self, rows: Sequence[Mapping[str, Any]], file: Path, *, assigners: int = 1, compact: bool = False
    ) -> None:
        """Upsert rows (values as text, kind in _kind)."""
        file.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
        self.run("write", str(file), str(assigners), *(["compact"] if compact else []))


def from_java(value: Any, t: DataType) -> Any:
    """A value as the witness prints it, to an internal value."""
    if value is None:
        return None
    if t.root is Root.DATE:
        return (date.fromisoformat(value) - _EPOCH).days
    if t.root is Root.DECIMAL:
        return Decimal(value)
    if t.root in BYTES_ROOTS:
        return bytes.fromhex(value)
    if t.root in TIMESTAMP_ROOTS:
        return _timestamp(value)
    if t.root is Root.TIME:
        return int(value)
    if t.root is Root.FLOAT:
        return float(value)
    if t.root is Root.ARRAY:
        assert t.element is not None
        return [from_java(v, t.element) for v in value]
    if t.root is Root.MAP:
        assert t.element is not None
        return {k: from_java(v, t.element) for k, v in value.items()}
    if t.root is Root.ROW:
        return tuple(from_java(value[f.name], f.type) for f in t.fields)
    return value


def java_hashes(java: JavaPaimon) -> dict[int, set[int]]:
    """Return the hashes in the index of a table partitioned by an INT, as Java reads them, by partition."""
    found: dict[int, set[int]] = {}
    for entry in java.json("index"):
        if entry["type"] == "HASH":
            assert len(entry["hashes"]) == entry["rows"] == entry["size"] // 4
            (partition,) = re.findall(r"-?\d+", str(entry["partition"]))
            found.setdefault(int(partition), set()).update(entry["hashes"])
    return found


def _timestamp(text: str) -> tuple[int, int]:
    head, _, fraction = text.partition(".")
    head += ":00" if head.count(":") == 1 else ""
    seconds = (datetime.fromisoformat(head).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        seconds=1
    )
    nanos = int((fraction + "000000000")[:9])
    return seconds * 1000 + nanos // 1_000_000, nanos % 1_000_000


def to_text(value: Any, t: DataType) -> str | None:
    """An internal value as text that both the witness and a landing file cast."""
    if value is None:
        return None
    if t.root is Root.DATE:
        return (_EPOCH + timedelta(days=value)).isoformat()
    if t.root in TIMESTAMP_ROOTS:
        moment = datetime(1970, 1, 1) + timedelta(milliseconds=value[0])
        digits = f"{value[0] % 1000:03d}{value[1]:06d}"[: t.precision]
        return moment.strftime("%Y-%m-%d %H:%M:%S") + (f".{digits}" if digits else "")
    if t.root in BYTES_ROOTS:
        return str(value.hex())
    if t.root is Root.BOOLEAN:
        return "true" if value else "false"
    if t.root in INT_ROOTS or t.root in (Root.DECIMAL, Root.CHAR, Root.VARCHAR, Root.FLOAT, Root.DOUBLE):
        return str(value)
    raise AssertionError(f"no text form of {t}")
