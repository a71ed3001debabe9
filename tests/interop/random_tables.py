"""Random tables: keys, columns and options that Paimon lets stand together, and batches for them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

KEY_TYPES = ("INT", "BIGINT", "STRING", "DATE", "DECIMAL(9, 2)", "TIMESTAMP(3)")
TYPES = (
    *KEY_TYPES,
    "DECIMAL(25, 3)",
    "TIMESTAMP(6)",
    "BOOLEAN",
    "DOUBLE",
    "SMALLINT",
    "TINYINT",
)
FUNCTIONS = {
    "INT": ("sum", "max", "min", "last_value", "last_non_null_value", "first_value", "first_non_null_value", "product"),
    "BIGINT": ("sum", "max", "min", "last_value"),
    "STRING": ("listagg", "last_value", "max", "first_value", "last_non_null_value"),
    "DOUBLE": ("sum", "max", "min"),
    "BOOLEAN": ("bool_or", "bool_and", "last_value"),
    "DATE": ("max", "min", "last_value"),
}
_INDEXABLE = ("INT", "BIGINT", "STRING", "DATE")
_POOL = 30


@dataclass(frozen=True)
class RandomTable:
    """A table's description.

    types     column -> type without NOT NULL
    deletes   batches may delete
    """

    spec: dict[str, Any]
    types: dict[str, str]
    deletes: bool
    keys: list[dict[str, str]]

    def batch(self, r: random.Random) -> list[dict[str, str | None]]:
        """Rows as text, kind in _kind."""
        kinds = ["+I", "+U", "-D"] if self.deletes else ["+I", "+U"]
        out: list[dict[str, str | None]] = []
        for _ in range(r.choice([2, 10, 40])):
            row: dict[str, str | None] = {n: text(t, r) for n, t in self.types.items()}
            out.append({**row, **r.choice(self.keys), "_kind": r.choice(kinds)})
        return out

    def write(self, r: random.Random, file: Path) -> Path:
        """A batch as JSON lines."""
        file.write_text("".join(json.dumps(row) + "\n" for row in self.batch(r)), encoding="utf-8")
        return file


def text(type_text: str, r: random.Random, *, null_share: float = 0.15) -> str | None:
    """A value as text; few different ones, so that keys and groups meet again."""
    if r.random() < null_share:
        return None
    if type_text in ("INT", "BIGINT", "SMALLINT", "TINYINT"):
        return str(r.randrange(-5, 6))
    if type_text == "STRING":
        return r.choice(["", "a", "bb", "ä", "x" * 40, "z"])
    if type_text.startswith("DECIMAL"):
        return f"{r.randrange(-999, 999) / 100:.2f}"
    day = f"20{r.randrange(10, 30)}-0{r.randrange(1, 9)}-1{r.randrange(0, 9)}"
    if type_text == "DATE":
        return day
    if type_text.startswith("TIMESTAMP"):
        return f"{day} 1{r.randrange(10)}:00:0{r.randrange(10)}.{r.randrange(1000):03d}"
    if type_text == "BOOLEAN":
        return r.choice(["true", "false"])
    return str(r.randrange(-50, 50) / 4)


def random_table(r: random.Random) -> RandomTable:
    """A description that both sides take."""
    keys = {f"k{i}": r.choice(KEY_TYPES) for i in range(r.choice([1, 1, 2]))}
    values = {f"c{i}": r.choice(TYPES) for i in range(r.choice([2, 3, 5]))} | {"s": "INT"}
    partition = {"p": "STRING"} if r.random() < 0.5 else {}
    options, deletes = _options(r, values)
    not_null = {**keys, **partition}
    fields = [{"name": n, "type": f"{t} NOT NULL"} for n, t in not_null.items()]
    fields += [{"name": n, "type": t} for n, t in values.items()]
    spec = {
        "fields": fields,
        "primaryKeys": [*partition, *keys],
        "partitionKeys": list(partition),
        "options": options,
    }
    pool = [
        {n: text(t, r, null_share=0) or "" for n, t in keys.items()}
        | ({"p": r.choice(["a", "b", "c d"])} if partition else {})
        for _ in range(_POOL)
    ]
    return RandomTable(spec, {**not_null, **values}, deletes, pool)


def _options(r: random.Random, values: dict[str, str]) -> tuple[dict[str, str], bool]:  # noqa: C901 - one draw per option
    def some(share: float) -> bool:
        return r.random() < share

    engine = r.choice(["deduplicate", "deduplicate", "partial-update", "aggregation", "first-row"])
    first_row = engine == "first-row"
    out = {"bucket": r.choice(["-1", "-1", "1", "3"]), "merge-engine": engine}
    if out["bucket"] == "-1":
        out["dynamic-bucket.target-row-num"] = r.choice(["5", "20", "1000"])
    producers = ["none", "lookup"] if first_row else ["none", "none", "none", "input", "lookup", "full-compaction"]
    out["changelog-producer"] = r.choice(producers)
    if not first_row and some(0.25):
        out |= {"deletion-vectors.enabled": "true", "changelog-producer": r.choice(["none", "lookup"])}
    if not first_row and some(0.2):
        out["force-lookup"] = "true"
    if not first_row and some(0.3):
        out["sequence.field"] = "s"
        if some(0.3):
            out["sequence.field.sort-order"] = "descending"
    deletes = engine == "deduplicate" and some(0.6)
    if engine == "aggregation":
        for column, t in values.items():
            if t in FUNCTIONS and some(0.8) and not (column == "s" and "sequence.field" in out):
                out[f"fields.{column}.aggregate-function"] = r.choice(FUNCTIONS[t])
    if engine == "partial-update" and "sequence.field" not in out:
        kind = r.random()
        if kind < 0.25:
            out["partial-update.remove-record-on-delete"] = "true"
            deletes = True
        elif kind < 0.5:
            out["fields.s.sequence-group"] = "c0"
    if not deletes and some(0.15):
        out["ignore-delete"] = "true"
        deletes = True
    out["num-sorted-run.compaction-trigger"] = r.choice(["2", "3", "5"])
    for option, value, share in (
        ("data-file.thin-mode", "true", 0.15),
        ("target-file-size", "2 kb", 0.1),
        ("manifest.merge-min-count", "2", 0.15),
        ("metadata.stats-mode", r.choice(["none", "full", "counts"]), 0.2),
        ("file-index.bloom-filter.columns", "c0" if values["c0"] in _INDEXABLE else "s", 0.2),
    ):
        if some(share):
            out[option] = value
    return out, deletes


def plain(value: Any, type_text: str) -> Any:
    """A value as either side gives it, in one spelling."""
    if value is None:
        return None
    if type_text in ("INT", "BIGINT", "SMALLINT", "TINYINT"):
        return int(value)
    if type_text == "DOUBLE":
        return float(value)
    if type_text.startswith("DECIMAL"):
        return Decimal(str(value))
    if type_text == "DATE":
        return value if isinstance(value, date) else date.fromisoformat(value)
    if type_text.startswith("TIMESTAMP"):
        return value if isinstance(value, datetime) else datetime.fromisoformat(value)
    if type_text == "BOOLEAN":
        return value is True or value == "true"
    return value
