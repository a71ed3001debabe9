"""Option of a table: a descriptor that declares key, kind, default and how its text is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Generic, Protocol, TypeVar, overload

from lakeidx.errors import InvalidInputError

T = TypeVar("T")


class OptionTexts(Protocol):
    """Texts of options: an object with attributes of its own, which takes the values that were read.

    raw      the texts as stored
    """

    raw: dict[str, str]


@cache
def _python_name(key: str) -> str:
    return re.sub(r"[.-]", "_", key)


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option: a descriptor of `lakeidx.options.table_options.TableOptions`, so that ``options.bucket`` is its value.

    A value that was read becomes an attribute of the object itself, which Python finds before the descriptor.

    key       Paimon's name
    kind      boolean, integer, number, size (bytes), duration (ms), text, names, map, or the choices joined with " | "
    default   value when neither the key nor a fallback key is set; None: not set
    fallback  older names of the option, in order
    """

    key: str
    kind: str
    parse: Callable[[str], T]
    default: T
    doc: str
    fallback: tuple[str, ...] = ()

    @property
    def attribute(self) -> str:
        """The key as a Python name."""
        return _python_name(self.key)

    def __set_name__(self, owner: type, name: str) -> None:
        if name != self.attribute:
            raise TypeError(f"option {self.key} must be declared as {self.attribute}, not {name}")

    @overload
    def __get__(self, instance: None, owner: type) -> Option[T]: ...
    @overload
    def __get__(self, instance: OptionTexts, owner: type) -> T: ...
    def __get__(self, instance: OptionTexts | None, owner: type) -> Option[T] | T:
        if instance is None:
            return self
        text = self.find(instance.raw)
        found = self.default if text is None else self.value_of(text)
        setattr(instance, self.attribute, found)
        return found

    def find(self, raw: Mapping[str, str]) -> str | None:
        """Return the option's text in a table's options, by key or fallback key."""
        for key in (self.key, *self.fallback):
            if key in raw:
                return raw[key]
        return None

    def value_of(self, text: str) -> T:
        """Parse the option's text.

        errors   InvalidInputError naming the option, the text and what it must be
        """
        try:
            return self.parse(text)
        except ValueError as e:
            raise InvalidInputError(f"option '{self.key}': expected {e}, not {text!r}") from e

    def check_given(self, text: str) -> None:
        """Refuse blanks around a whole number, a boolean or a choice: Java cannot open a table with them."""
        if text != text.strip() and (self.kind in ("boolean", "integer") or " | " in self.kind):
            raise InvalidInputError(f"option '{self.key}': write {text.strip()!r} without blanks, not {text!r}")
