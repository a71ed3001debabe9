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


@dataclass(frozen=True, slots=True)
class Show:
    """A SHOW.

    what   TABLES, DATABASES, COLUMNS, PARTITIONS, TBLPROPERTIES or CREATE TABLE
    name   of the database, or the table's node
    like   pattern of names, as Spark's: ``*`` for any characters, ``|`` between several
    partition   values that partitions must have
    """

    what: str
    database: str | None = None
    table: Node = None
    like: str | None = None
    partition: dict[str, Any] = field(default_factory=dict)


def read_show(statement: Statement) -> Show:
    """Read a SHOW."""
    reader = Reader(statement, 1)
    if reader.take("TABLES"):
        database = reader.name() if reader.take("IN") or reader.take("FROM") else None
        found = Show("TABLES", database, like=_pattern(reader))
    elif reader.take("DATABASES") or reader.take("SCHEMAS") or reader.take("NAMESPACES"):
        found = Show("DATABASES", like=_pattern(reader))
    elif reader.take("CREATE", "TABLE"):
        found = Show("CREATE TABLE", table=reader.table())
    elif reader.take("COLUMNS"):
        if not reader.take("IN"):
            reader.need("FROM")
        found = Show("COLUMNS", table=reader.table_in_database())
    elif reader.take("PARTITIONS"):
        found = Show("PARTITIONS", table=reader.table(), partition=read_partition(reader))
    elif reader.take("TBLPROPERTIES"):
        table = reader.table()
        key = None
        if reader.take("("):
            key = reader.text()
            reader.need(")")
        found = Show("TBLPROPERTIES", table=table, like=key)
    else:
        raise reader.refusal(
            "SHOW takes TABLES, DATABASES, COLUMNS IN t, PARTITIONS t, TBLPROPERTIES t or CREATE TABLE t"
        )
    reader.end()
    return found


def _pattern(reader: Reader) -> str | None:
    if reader.take("LIKE") or not reader.done:
        return reader.text()
    return None


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """``ALTER TABLE t ALTER COLUMN c ...``.

    column   with the path to it, ``address.city``
    change   TYPE, NULLABLE, COMMENT, DEFAULT or MOVE
    value    the type's node, True for nulls, a text, the default as SQL or None, ``first`` or ``after NAME``
    """

    table: Node
    column: str
    change: str
    value: Any


def read_column_change(statement: Statement, reader: Reader, table: Node) -> ColumnChange:
    """Read what follows ``ALTER TABLE t ALTER``."""
    reader.take("COLUMN")
    column = ".".join(reader.path())
    value: Any
    if reader.take("TYPE"):
        change, value = "TYPE", reader.rest(exp.DataType)
    elif reader.take("SET", "NOT", "NULL"):
        change, value = "NULLABLE", False
    elif reader.take("DROP", "NOT", "NULL"):
        change, value = "NULLABLE", True
    elif reader.take("COMMENT"):
        change, value = "COMMENT", reader.text()
    elif reader.take("SET", "DEFAULT"):
        change, value = "DEFAULT", default_text(reader.value())
    elif reader.take("DROP", "DEFAULT"):
        change, value = "DEFAULT", None
    elif reader.take("FIRST"):
        change, value = "MOVE", "first"
    elif reader.take("AFTER"):
        change, value = "MOVE", f"after {reader.name()}"
    else:
        raise reader.refusal(
            "ALTER COLUMN takes TYPE, SET or DROP NOT NULL, SET or DROP DEFAULT, COMMENT, FIRST or AFTER"
        )
    reader.end()
    return ColumnChange(table, column, change, value)


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
