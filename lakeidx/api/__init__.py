"""Tables and warehouses for Python users; the command line and notebooks call nothing else.

`Table` has all verbs of a table, of which those of `Maintenance` keep it small, fast and right; a `Warehouse` makes, finds and
drops tables. Every command of ``lakeidx`` is a method of one of the two, or a function of `lakeidx`
where there is no table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeidx import lazy_names

if TYPE_CHECKING:
    from lakeidx.api.system_table import SystemTable as SystemTable
    from lakeidx.api.table import Table as Table
    from lakeidx.api.warehouse import Warehouse as Warehouse

# A command imports the verbs that it needs from their modules, and not all others with them.
_PLACES = {
    "SystemTable": "lakeidx.api.system_table",
    "Table": "lakeidx.api.table",
    "Warehouse": "lakeidx.api.warehouse",
}
__all__ = list(_PLACES)

__getattr__ = lazy_names(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
