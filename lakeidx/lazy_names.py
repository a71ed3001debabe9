"""Names of a package that are loaded when they are requested, so that importing the package stays cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, places: Mapping[str, str], *, needs: tuple[str, str] | None = None
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    places   name -> the module that has it
    needs    a library that comes with an extra, and what to say when it is not installed
    errors   of the function: AttributeError for another name; ModuleNotFoundError
    """

    def load(name: str) -> Any:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(place), name)
        except ModuleNotFoundError as error:
            if needs is None or error.name != needs[0]:
                raise
            raise ModuleNotFoundError(needs[1], name=error.name) from error

    return load
