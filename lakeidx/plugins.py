"""Plug-ins, found by entry points: parts that other packages add, and parts of lakeidx that its core does not import.

=======================  ============================================  ===========================================================
group                    name                                          value
=======================  ============================================  ===========================================================
lakeidx.index_types      value of option ``index.type``                a `lakeidx.key_index.registry.IndexType`
lakeidx.change_formats   value of ``landing.format``; ``op_column``    a function as `lakeidx.landing.changes.ReadChanges`
                         for rows whose operation is in a column
lakeidx.tools            name of a tool                                its module
=======================  ============================================  ===========================================================

Entry points are in the metadata of installed packages: a folder or an archive of bare modules has none.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from lakeidx.errors import InvalidInputError, did_you_mean

INDEX_TYPES = "lakeidx.index_types"
CHANGE_FORMATS = "lakeidx.change_formats"
TOOLS = "lakeidx.tools"

NO_PLUGINS = "no plug-in is installed, not even lakeidx's own: install lakeidx with pip, or put its wheel on the path"


@cache
def _found(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)}


def plugin_names(group: str) -> tuple[str, ...]:
    """Return the names of a group's entry points."""
    return tuple(_found(group))


def load_plugin(group: str, name: str) -> Any:
    """Return what an entry point stands for.

    errors   InvalidInputError when there is none of that name, or it cannot be imported
    """
    entry = _found(group).get(name)
    if entry is None:
        raise InvalidInputError(f"no installed package has {name!r} among {group}: {_known(group, name)}")
    try:
        return entry.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise InvalidInputError(f"{name!r} of {group} cannot be loaded from {entry.value}: {error}") from error


def _known(group: str, name: str) -> str:
    """Return what to say of a name that is not known: a near one, or that nothing is installed."""
    known = plugin_names(group)
    return did_you_mean(name, known, listing="known are") if known else NO_PLUGINS
