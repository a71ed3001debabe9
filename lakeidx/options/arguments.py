"""Arguments of the Python API of another type than declared: converted where that is natural, else refused in one line.

A ``pathlib.Path`` is a path, and NumPy's whole numbers are numbers. One text in place of a list is refused: its letters would be
taken for names.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from lakeidx.errors import InvalidInputError

PathLike: TypeAlias = str | os.PathLike[str]


def path_text(value: PathLike, *, name: str = "a table") -> str:
    """Return a path or URI as text.

    name     what the path leads to, for the error
    errors   InvalidInputError for anything but text and `os.PathLike`
    """
    as_text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(as_text, str) or not as_text.strip() or "\0" in as_text:
        raise InvalidInputError(f"expected the path or URI of {name}, not {value!r}")
    return as_text


def as_text(value: Any, *, name: str) -> str:
    """Return an argument that is a text; InvalidInputError for anything else."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a text, not {value!r}")
    return value


def texts(values: Iterable[str], *, name: str) -> tuple[str, ...]:
    """Return an argument that is a list of texts; InvalidInputError for one text, and for anything else."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidInputError(f"{name} must be a list of texts, not {values!r}")
    return tuple(as_text(value, name=f"{name}: each") for value in values)


def paths(values: Iterable[PathLike], *, name: str) -> list[str]:
    """Return an argument that is a list of paths as texts; InvalidInputError for one path, and for anything else."""
    if isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Iterable):
        raise InvalidInputError(f"{name} must be a list of paths, not {values!r}")
    return [path_text(value, name="a file") for value in values]


def whole_number(value: Any, *, name: str) -> int:
    """Return an argument that is a whole number, of Python or NumPy; InvalidInputError for anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidInputError(f"{name} must be a whole number, not {value!r}") from None


def storage_options(value: Any, *, path: str) -> Mapping[str, Any]:
    """Return the options of an object store, none for None; InvalidInputError for anything but a mapping of texts to values."""
    given = {} if value is None else value
    if isinstance(given, Mapping) and all(isinstance(k, str) for k in given):
        return given
    # What was given may hold a secret: only its type is named.
    found = "a mapping with other names" if isinstance(given, Mapping) else f"of type {type(given).__name__}"
    raise InvalidInputError(
        f"storage_options must be None or a mapping of texts to values, such as {{'region': 'eu-central-1'}}, not {found}",
        path=path,
    )
