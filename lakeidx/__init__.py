"""lakeidx: primary-key tables on an object store in the Apache Paimon format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeidx.api import Table as Table

__version__ = "0.1.0"
__all__ = ["Table", "__version__"]


def __getattr__(name: str) -> Any:
    # Importing the package stays cheap: Arrow and Numba come in with the first table.
    if name == "Table":
        from lakeidx.api import Table

        return Table
    raise AttributeError(f"module 'lakeidx' has no attribute {name!r}")
