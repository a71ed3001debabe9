"""Dagster definitions of lakeidx: what runs when, and what it reports. No table logic lives here.

For other projects: components `PrimaryKeyTable`, `WarehouseTables` and `TableMaintenance`; `LakeIdxIOManager`, `LakeIdxTable` and
`LakeIdxCatalog` for assets of their own. `definitions` is the code location of this one and `factory` makes everything of one
pipeline file; `assets`, `sensors` and `expectations` hold what the factory puts together.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagster_project.components.found_tables import TableMaintenance as TableMaintenance
    from dagster_project.components.found_tables import WarehouseTables as WarehouseTables
    from dagster_project.components.primary_key_table import PrimaryKeyTable as PrimaryKeyTable
    from dagster_project.io.manager import LakeIdxIOManager as LakeIdxIOManager
    from dagster_project.io.resources import LakeIdxCatalog as LakeIdxCatalog
    from dagster_project.io.resources import LakeIdxTable as LakeIdxTable

# Importing the package stays cheap: Dagster comes in with the first name.
_PLACES = {
    "LakeIdxCatalog": "dagster_project.io.resources",
    "LakeIdxIOManager": "dagster_project.io.manager",
    "LakeIdxTable": "dagster_project.io.resources",
    "PrimaryKeyTable": "dagster_project.components.primary_key_table",
    "TableMaintenance": "dagster_project.components.found_tables",
    "WarehouseTables": "dagster_project.components.found_tables",
}
__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'dagster_project' has no attribute {name!r}")
    try:
        return getattr(import_module(place), name)
    except ModuleNotFoundError as error:
        if error.name != "dagster":
            raise
        raise ModuleNotFoundError("needs Dagster: pip install 'lakeidx[dagster]'", name=error.name) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
