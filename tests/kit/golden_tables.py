"""The tables of the golden data: their files, and what Java said of them (README there)."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lakeidx.api.table import Table
from lakeidx.format.schema.schema_file import TableSchema, decode_schema
from lakeidx.format.snapshot import Snapshot, decode_snapshot
from tests.conftest import GOLDEN


@dataclass(frozen=True)
class GoldenTable:
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def path(self) -> Path:
        return self.folder / "table"

    @cached_property
    def info(self) -> dict[str, Any]:
        """What case.json says."""
        found: dict[str, Any] = json.loads((self.folder / "case.json").read_text(encoding="utf-8"))
        return found

    def schema(self, schema_id: int) -> TableSchema:
        path = self.path / "schema" / f"schema-{schema_id}"
        return decode_schema(path.read_bytes(), str(path))

    @cached_property
    def latest_schema(self) -> TableSchema:
        return self.schema(self.info["latest_schema_id"])

    def snapshot(self, snapshot_id: int) -> Snapshot:
        path = self.path / "snapshot" / f"snapshot-{snapshot_id}"
        return decode_snapshot(path.read_bytes(), str(path))

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text(encoding="utf-8").splitlines()]

    def copy_to(self, folder: Path) -> Table:
        place = folder / "g.db" / "t"
        shutil.copytree(self.path, place)
        return Table.open(str(place))


TABLES = [GoldenTable(path.parent) for path in sorted((GOLDEN / "tables").glob("*/case.json"))]
