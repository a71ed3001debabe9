"""Dagster definitions of lakeidx: what runs when, and what it reports. No table logic lives here.

For other projects: components `PrimaryKeyTable`, `FeedTables`, `WarehouseTables` and `TableMaintenance`; `LakeIdxIOManager`,
`LakeIdxTable` and `LakeIdxCatalog` for assets of their own. `definitions` is the code location of a folder of pipeline files and
`factory` makes everything of one file; `assets`, `sensors` and `expectations` hold what the factory puts together. The tables of
this repository do not belong here: they are in ``pipelines/`` and ``dagster_project/``, which no wheel holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeidx import lazy_names
from lakeidx.dagster.garbage import no_search

if TYPE_CHECKING:
    from lakeidx.dagster.components.feed_tables import FeedTables as FeedTables
    from lakeidx.dagster.components.found_tables import TableMaintenance as TableMaintenance
    from lakeidx.dagster.components.found_tables import WarehouseTables as WarehouseTables
    from lakeidx.dagster.components.primary_key_table import PrimaryKeyTable as PrimaryKeyTable
    from lakeidx.dagster.io.manager import LakeIdxIOManager as LakeIdxIOManager
    from lakeidx.dagster.io.resources import LakeIdxCatalog as LakeIdxCatalog
    from lakeidx.dagster.io.resources import LakeIdxTable as LakeIdxTable

# Importing the package stays cheap: Dagster comes in with the first name.
_PLACES = {
    "FeedTables": "lakeidx.dagster.components.feed_tables",
    "LakeIdxCatalog": "lakeidx.dagster.io.resources",
    "LakeIdxIOManager": "lakeidx.dagster.io.manager",
    "LakeIdxTable": "lakeidx.dagster.io.resources",
    "PrimaryKeyTable": "lakeidx.dagster.components.primary_key_table",
    "TableMaintenance": "lakeidx.dagster.components.found_tables",
    "WarehouseTables": "lakeidx.dagster.components.found_tables",
}
__all__ = list(_PLACES)

_load = lazy_names(__name__, _PLACES, needs=("dagster", "needs Dagster: pip install 'lakeidx[dagster]'"))


def __getattr__(name: str) -> Any:
    with no_search():
        return _load(name)


def __dir__() -> list[str]:
    # Dagster looks each of these up for its list of components, at every load of a project; `__all__` has the others, too.
    return sorted({*globals(), *(n for n, place in _PLACES.items() if ".components." in place)})
