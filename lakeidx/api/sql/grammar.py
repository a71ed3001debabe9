"""The statements that sqlglot does not read: SHOW, EXPLAIN, CALL, and the forms of ALTER TABLE that it hands on as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from lakeidx.api.sql.statement import Node, Statement, Token
from lakeidx.errors import InvalidInputError

_LITERALS = ("STRING", "NUMBER")
_WORDS = {"TRUE": True, "FALSE": False, "NULL": None}


class Reader:
    """Reads the words of a statement one after another."""

    def __init__(self, statement: Statement, at: int) -> None:
        self.statement = statement
        self.at = at

    @property
    def done(self) -> bool:
        """True at the end of the statement."""
        return self.at >= len(self.statement.tokens)

    def next(self) -> Token:
        """Return the next token; InvalidInputError at the end."""
        if self.done:
            raise self.statement.error("the statement is not complete", self.statement.tokens[-1])
        self.at += 1
        return self.statement.tokens[self.at - 1]

    def take(self, *words: str) -> bool:
        """Go over some words when all of them come next."""
        if all(self.statement.word(self.at + n) == word for n, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def need(self, *words: str) -> None:
        """Go over some words; InvalidInputError when others come."""
        if not self.take(*words):
            raise self.refusal(f"{' '.join(words)} must stand here")

    def refusal(self, message: str) -> InvalidInputError:
        """Return an error about the next word."""
        tokens = self.statement.tokens
        return self.statement.error(message, tokens[min(self.at, len(tokens) - 1)])

    def end(self) -> None:
        """Refuse what is left."""
        if not self.done:
            raise self.refusal(f"not understood, near {self.statement.tokens[self.at].text!r}")

    def name(self) -> str:
        """Return the next word as a name."""
        token = self.next()
        if token.token_type.name in _LITERALS or not (
            token.text[:1].isalpha() or token.text[:1] == "_" or token.token_type.name == "IDENTIFIER"
        ):
            self.at -= 1
            raise self.refusal("a name must stand here")
        return str(token.text)

    def path(self) -> list[str]:
        """Return names with dots between."""
        found = [self.name()]
        while self.take("."):
            found.append(self.name())
        return found

    def table(self) -> Node:
        """Return the name of a table as sqlglot's node."""
        first = self.at
        self.path()
        return Statement(self.statement.text, self.statement.tokens[first : self.at]).parse(exp.Table)

    def table_in_database(self) -> Node:
        """Return the name of a table, whose database may stand behind IN or FROM."""
        table = self.table()
        if self.take("IN") or self.take("FROM"):
            table.set("db", exp.to_identifier(self.name(), quoted=True))
        return table

    def value(self) -> Any:
        """Return a literal as Python's value."""
        negative = self.take("-")
        token = self.next()
        if token.token_type.name == "NUMBER" and token.text.replace(".", "", 1).isdigit():
            number = float(token.text) if "." in token.text else int(token.text)
            return -number if negative else number
        if not negative and token.token_type.name == "STRING":
            return str(token.text)
        if not negative and token.text.upper() in _WORDS:
            return _WORDS[token.text.upper()]
        self.at -= 1
        raise self.refusal("a number, a text in quotes, TRUE, FALSE or NULL must stand here")

    def text(self) -> str:
        """Return the next literal, which must be a text."""
        value = self.value()
        if not isinstance(value, str):
            self.at -= 1
            raise self.refusal("a text in quotes must stand here")
        return value

    def rest(self, into: Any) -> Node:
        """Return what is left as sqlglot reads it."""
        if self.done:
            raise self.refusal("the statement is not complete")
        found = Statement(self.statement.text, self.statement.tokens[self.at :]).parse(into)
        self.at = len(self.statement.tokens)
        return found


@dataclass(frozen=True, slots=True)
class Call:
    """``CALL sys.compact(table => 'shop.orders')``."""

    procedure: str
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)


def read_call(statement: Statement) -> Call:
    """Read a CALL; arguments by name or by position, those by position first."""
    reader = Reader(statement, 1)
    path = reader.path()
    if [p.lower() for p in path[:-1]] != ["sys"]:
        raise statement.error(
            "procedures are of the database sys: CALL sys.compact(table => 'shop.orders')", statement.tokens[1]
        )
    reader.need("(")
    positional: list[Any] = []
    named: dict[str, Any] = {}
    tokens: dict[str, Token] = {}
    while not reader.take(")"):
        if (positional or named) and not reader.take(","):
            raise reader.refusal("',' or ')' must stand here")
        token = statement.tokens[reader.at] if not reader.done else reader.next()
        if statement.word(reader.at + 1) in ("=>", "="):
            name = reader.name().lower()
            reader.next()
            if name in named:
                raise statement.error(f"argument {name} is there twice", token)
            named[name], tokens[name] = reader.value(), token
        elif named:
            raise reader.refusal("arguments by position stand before those by name")
        else:
            positional.append(reader.value())
    reader.end()
    return Call(path[-1].lower(), tuple(positional), named, tokens)


def read_column_change(reader: Reader) -> tuple[str, str, Any]:
    """Read what follows ``ALTER TABLE t ALTER``.

    returns   the column, with the path to it; the argument of `lakeidx.Table.alter` that says what changes; and what it becomes,
              of a type its node
    """
    reader.take("COLUMN")
    column = ".".join(reader.path())
    value: Any
    if reader.take("TYPE"):
        change, value = "types", reader.rest(exp.DataType)
    elif reader.take("SET", "NOT", "NULL"):
        change, value = "nullable", False
    elif reader.take("DROP", "NOT", "NULL"):
        change, value = "nullable", True
    elif reader.take("COMMENT"):
        change, value = "comments", reader.text()
    elif reader.take("SET", "DEFAULT"):
        change, value = "defaults", default_text(reader.value())
    elif reader.take("DROP", "DEFAULT"):
        change, value = "defaults", None
    elif reader.take("FIRST"):
        change, value = "move", "first"
    elif reader.take("AFTER"):
        change, value = "move", f"after {reader.name()}"
    else:
        raise reader.refusal(
            "ALTER COLUMN takes TYPE, SET or DROP NOT NULL, SET or DROP DEFAULT, COMMENT, FIRST or AFTER"
        )
    reader.end()
    return column, change, value


def default_text(value: Any) -> str:
    """Return a default as a schema keeps it, as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_partition(reader: Reader) -> dict[str, Any]:
    """Read ``PARTITION (day = '2026-11-01')``, which may be missing."""
    found: dict[str, Any] = {}
    if not reader.take("PARTITION"):
        return found
    reader.need("(")
    while not reader.take(")"):
        if found:
            reader.need(",")
        name = reader.name()
        reader.need("=")
        reader.take("DATE")
        found[name] = reader.value()
    return found


def read_unset(reader: Reader) -> Sequence[str]:
    """Read the list of options that follows ``UNSET TBLPROPERTIES``."""
    reader.take("IF", "EXISTS")
    reader.need("(")
    found = [reader.text()]
    while not reader.take(")"):
        reader.need(",")
        found.append(reader.text())
    reader.end()
    return found
