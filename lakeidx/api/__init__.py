"""Tables and warehouses for Python users; the command line and notebooks call nothing else.

`Table` puts together writing (`lakeidx.api.writing`), looking (`lakeidx.api.looking`) and upkeep (`lakeidx.api.upkeep`); a
`Warehouse` makes, finds and drops tables. Every command of ``lakeidx`` is a method of one of the two, or a function of `lakeidx`
where there is no table.
"""

from __future__ import annotations

from lakeidx.api.system_table import SystemTable
from lakeidx.api.table import Table
from lakeidx.api.warehouse import Warehouse

__all__ = ["SystemTable", "Table", "Warehouse"]
