"""The reference page of the Python API: signatures and docstrings of what users import."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import lakeidx
from tools.docs.docstrings import markdown

#: Names of `lakeidx` that begin the page.
FIRST = ("Table", "Warehouse", "BatchResult")
#: (what one imports, from where) besides the names of `lakeidx` itself, in the order of the page.
MORE: tuple[tuple[str, str], ...] = (
    ("TableScan", "lakeidx.table.scan.table_scan"),
    ("ExpireResult", "lakeidx.api.reports"),
    ("OrphansResult", "lakeidx.api.reports"),
    ("TagResult", "lakeidx.api.reports"),
    ("RollbackResult", "lakeidx.api.reports"),
    ("VerifyResult", "lakeidx.api.reports"),
    ("register", "lakeidx.spark"),
    ("read_table", "lakeidx.spark"),
    ("lookup_join", "lakeidx.spark"),
    ("upsert", "lakeidx.spark"),
)


def public() -> list[tuple[str, str]]:
    """List every public name with its module; errors have a page of their own."""
    names = [n for n in lakeidx.__all__ if n not in FIRST and not n.startswith("_") and not n.endswith("Error")]
    return [*((n, "lakeidx") for n in (*FIRST, *names)), *MORE]


def api_page() -> str:
    """Return the page as Markdown."""
    parts = [
        "# Python API",
        "What is listed here is public: it changes only with a line in the change log. Rows go in and come out as Arrow; see "
        "[errors](errors.md) for what is raised.",
    ]
    for name, module in public():
        parts += _entry(name, module, getattr(importlib.import_module(module), name))
    return "\n\n".join(parts) + "\n"


def _entry(name: str, module: str, found: Any) -> Iterator[str]:
    yield f"## {name}"
    yield f"```python\nfrom {module} import {name}\n```"
    if not inspect.isclass(found):
        yield f"```python\n{name}{signature(found)}\n```"
    yield markdown(found.__doc__)
    if inspect.isclass(found):
        for member, function in members(found):
            yield f"### {name}.{member}"
            if isinstance(function, property):
                yield markdown(function.__doc__)
                continue
            yield f"```python\n{member}{signature(function)}\n```"
            yield markdown(function.__doc__)


def members(owner: type) -> list[tuple[str, Any]]:
    """List public methods and properties with a docstring, inherited ones included, in the order of declaration."""
    found: dict[str, Any] = {}
    for base in reversed([b for b in owner.__mro__ if b.__module__.startswith("lakeidx")]):
        for name, value in vars(base).items():
            function = getattr(value, "__func__", value)
            if not name.startswith("_") and (inspect.isfunction(function) or isinstance(function, property)):
                found[name] = function
    return [(name, function) for name, function in found.items() if function.__doc__]


def signature(function: Any) -> str:
    """Render parameters, one a line when they are many, without `self`."""
    found = inspect.signature(function)
    kept = [p for p in found.parameters.values() if p.name not in ("self", "cls")]
    text = str(found.replace(parameters=kept)).replace("'", "")
    if len(text) < 90:
        return text
    lines: list[str] = []
    keyword_only = False
    for p in kept:
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            lines.append("    *,")
        lines.append(f"    {p},".replace("'", ""))
    returns = f" -> {found.return_annotation}".replace("'", "")
    return "\n".join(("(", *lines, ")" + returns))
