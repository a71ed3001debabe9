"""Primary-key tables on a disk or an S3 store, in the Apache Paimon format.

`Table` is one table, `SystemTable` its rows with their kinds, `Warehouse` a folder of tables; `inspect_file` decodes any of their
files, `tag_hudi_table` looks into tables of Hudi, `init` makes a table of files, `warm_up` compiles kernels. All kinds of error are
here, too, with `LakeIdxError` as their root. In Spark import `lakeidx.spark`. Every other package is an implementation that the
layers in README.md put in order.
What Dagster runs lives in `lakeidx.dagster`, what spark-submit runs in `jobs`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeidx.api import SystemTable as SystemTable
    from lakeidx.api import Table as Table
    from lakeidx.api import Warehouse as Warehouse
    from lakeidx.api.dry_run.plan import BatchPlan as BatchPlan
    from lakeidx.api.hudi import tag_hudi_table as tag_hudi_table
    from lakeidx.api.inference.start import init as init
    from lakeidx.api.inspect.files import inspect_file as inspect_file
    from lakeidx.batch.committed_batch import BatchResult as BatchResult
    from lakeidx.errors import BatchHeldError as BatchHeldError
    from lakeidx.errors import CommitConflictError as CommitConflictError
    from lakeidx.errors import CommitUnknownError as CommitUnknownError
    from lakeidx.errors import CorruptFileError as CorruptFileError
    from lakeidx.errors import InternalError as InternalError
    from lakeidx.errors import InvalidInputError as InvalidInputError
    from lakeidx.errors import LakeIdxError as LakeIdxError
    from lakeidx.errors import NotFoundError as NotFoundError
    from lakeidx.errors import RejectedRowsError as RejectedRowsError
    from lakeidx.errors import TableReplacedError as TableReplacedError
    from lakeidx.errors import UnavailableError as UnavailableError
    from lakeidx.errors import UnsupportedError as UnsupportedError
    from lakeidx.key_index.advice.measures import Needs as Needs
    from lakeidx.key_index.advice.model import Machine as Machine
    from lakeidx.landing.read import LandingOptions as LandingOptions
    from lakeidx.maintenance.warm_up import warm_up as warm_up

__version__ = "0.2.0"


def lazy_names(
    package: str, places: Mapping[str, str], *, needs: tuple[str, str] | None = None
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names are loaded when they are requested, so that importing it stays cheap.

    places   name -> the module that has it
    needs    a library that comes with an extra, and what to say when it is not installed
    errors   of the function: AttributeError for another name; ModuleNotFoundError
    """

    def load(name: str) -> Any:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            found = getattr(import_module(place), name)
        except ModuleNotFoundError as error:
            if needs is None or error.name != needs[0]:
                raise
            raise ModuleNotFoundError(needs[1], name=error.name) from error
        # The next time Python finds it without asking.
        if package in sys.modules:
            setattr(sys.modules[package], name, found)
        return found

    return load


# Importing the package stays cheap: Arrow and Numba come in with the first table.
_PLACES = {
    "SystemTable": "lakeidx.api",
    "Table": "lakeidx.api",
    "Warehouse": "lakeidx.api",
    "BatchPlan": "lakeidx.api.dry_run.plan",
    "BatchResult": "lakeidx.batch.committed_batch",
    "LandingOptions": "lakeidx.landing.read",
    "Machine": "lakeidx.key_index.advice.model",
    "Needs": "lakeidx.key_index.advice.measures",
    "init": "lakeidx.api.inference.start",
    "inspect_file": "lakeidx.api.inspect.files",
    "tag_hudi_table": "lakeidx.api.hudi",
    "warm_up": "lakeidx.maintenance.warm_up",
    **dict.fromkeys(
        (
            "BatchHeldError",
            "CommitConflictError",
            "CommitUnknownError",
            "CorruptFileError",
            "InternalError",
            "InvalidInputError",
            "LakeIdxError",
            "NotFoundError",
            "RejectedRowsError",
            "TableReplacedError",
            "UnavailableError",
            "UnsupportedError",
        ),
        "lakeidx.errors",
    ),
}
__all__ = ["__version__", *_PLACES]

__getattr__ = lazy_names(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted(__all__)
