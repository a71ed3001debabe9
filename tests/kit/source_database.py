"""A database of one table that changes at random; its rows are plain Python values."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal

from tests.kit.change_messages import DAY_ZERO, TIME_ZERO, Change, Row

_COLUMNS = {"id": "int", "name": "text", "price": "price", "day": "day", "at": "at", "flag": "flag"}
_TYPES = ("INT", "STRING", "DECIMAL(12, 2)", "DATE", "TIMESTAMP(3)", "BOOLEAN")
FIELDS = [{"name": name, "type": t} for name, t in zip(_COLUMNS, _TYPES, strict=True)]
#: What comes before all changes of the table.
CREATED = Change("things", "create", _COLUMNS, None, None, 1, 0)


@dataclass
class SourceDatabase:
    """The table as it is, and the changes that led to it."""

    seed: int
    rows: dict[int, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(self, transactions: int, keys: int = 12) -> None:
        for number in range(1, transactions + 1):
            for _ in range(self._random.randint(1, 4)):
                self._change(number, self._random.randrange(keys), keys)

    def _change(self, transaction: int, key: int, keys: int) -> None:
        before = self.rows.get(key)
        after: Row | None = self._row(key)
        dice = self._random.random()
        if before is not None and dice < 0.25:
            after = None
        elif before is not None and dice < 0.45:
            free = [k for k in range(keys) if k not in self.rows]
            after = {**before, "id": self._random.choice(free)} if free else after
        elif before is not None and dice < 0.75:
            after = {**before, "price": self._price()}
        if before is not None:
            del self.rows[before["id"]]
        if after is not None:
            self.rows[after["id"]] = after
        op = "c" if before is None else "d" if after is None else "u"
        self.changes.append(Change("things", op, _COLUMNS, before, after, 1000 + len(self.changes), transaction))

    def _price(self) -> Decimal | None:
        choice = self._random.random()
        if choice < 0.2:
            return None
        return Decimal(
            self._random.randint(-(10**11), 10**11) if choice < 0.5 else self._random.randint(-200, 200)
        ).scaleb(-2)

    def _row(self, key: int) -> Row:
        some = self._random
        return {
            "id": key,
            "name": some.choice(['x "quoted"', "Ärger\n", "", None, "null", "1234", f"n{some.random()}"]),
            "price": self._price(),
            "day": some.choice([None, DAY_ZERO + timedelta(days=some.randint(-30000, 30000))]),
            "at": TIME_ZERO + timedelta(milliseconds=some.randint(-(10**12), 4 * 10**12)),
            "flag": some.choice([True, False, None]),
        }
