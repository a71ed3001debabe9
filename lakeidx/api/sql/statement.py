"""Statements as text: sqlglot's reading of Spark's dialect, and errors that name line and column."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError

from lakeidx.errors import InvalidInputError

Node = Any  # a node of sqlglot's tree; the name of their common class differs between releases
Token = Any
_SparkParser: Any = Spark.Parser

_MISSING = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>")
_PLACE = re.compile(r"(?:from |line )(\d+):(\d+)")
#: The part of a node that has its WITH; sqlglot 28 has renamed it.
WITH = "with_" if "with_" in exp.Select.arg_types else "with"
_QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'|[Ff]unction with name (\S+)")
#: What stands in place of a value, and is none: variables of Spark, names behind @.
_VARIABLES = (exp.Parameter, exp.Placeholder, exp.SessionParameter)


class LakeidxSql(Spark):
    """Spark's dialect with ``$`` in names (``t$files``); sqlglot files the dialect under this class's name."""

    class Tokenizer(Spark.Tokenizer):
        """Texts as in Spark 4, where two quotes within one are a quote; what follows SHOW or CALL comes word by word."""

        VAR_SINGLE_TOKENS: ClassVar = {"$"}
        STRING_ESCAPES: ClassVar = ["\\", "'", '"']
        COMMANDS: ClassVar[set[Any]] = set()

    class Parser(_SparkParser):  # type: ignore[misc]
        """Refuses what sqlglot would hand on as text that it does not understand; a CAST that fails is an error, as in Spark 4."""

        STRICT_CAST: ClassVar = True

        def _parse_as_command(self, start: Token) -> Any:
            self.raise_error("not understood", start)


class Statement:
    """One statement of a text.

    text     the whole text, which may have other statements
    tokens   those of this statement, at least one
    """

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.tokens = list(tokens)

    def __str__(self) -> str:
        return self.text[self.tokens[0].start : self.tokens[-1].end + 1]

    def word(self, number: int) -> str:
        """Return a word of the statement in capitals, "" behind its end."""
        return str(self.tokens[number].text).upper() if number < len(self.tokens) else ""

    def behind(self, count: int) -> Statement:
        """Return the statement that begins after some words.

        errors   InvalidInputError when nothing does
        """
        if len(self.tokens) <= count:
            raise self.error(f"something must follow {self.word(len(self.tokens) - 1)}", self.tokens[-1])
        return Statement(self.text, self.tokens[count:])

    def parse(self, into: Any = None) -> Node:
        """Return sqlglot's tree; InvalidInputError for what it does not understand.

        into   part of a statement that the text is, such as `sqlglot.exp.DataType`
        """
        parser = LakeidxSql().parser(error_level=ErrorLevel.IMMEDIATE)
        try:
            found = (
                parser.parse(self.tokens, self.text)
                if into is None
                else parser.parse_into(into, self.tokens, self.text)
            )
        except ParseError as error:
            raise self._not_read(error) from None
        except RecursionError:
            raise self.error("the statement is nested too deeply") from None
        if len(found) != 1 or found[0] is None:
            raise self.error("not understood")
        for variable in found[0].find_all(*_VARIABLES):
            raise self.error(
                "there are no variables: write the value", variable if _offset(variable) else self.find("@$?:{")
            )
        return found[0]

    def error(self, message: str, at: Node | Token | int | None = None) -> InvalidInputError:
        """Return an error that names line and column.

        at   node or token that it is about, or its offset in the text; None: the statement
        """
        offset = at if isinstance(at, int) else _offset(at)
        offset = self.tokens[0].start if offset is None else offset
        line, column = self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)
        return InvalidInputError(f"line {line}, column {column}: {message}")

    def about(self, message: str) -> InvalidInputError:
        """Return an error that names the place of what its message quotes, or begins with."""
        quoted = [n for pair in _QUOTED.findall(message) for n in pair if n]
        return self.error(message, self.find(quoted) or self.find(message.split()[:1]))

    def find(self, words: Collection[str]) -> Token | None:
        """Return the first token that is one of some names, in any case."""
        wanted = {w.lower() for w in words}
        return next((t for t in self.tokens if t.text.lower() in wanted), None)

    def only(self, node: Node, known: Collection[str], what: str) -> None:
        """Refuse what hangs on a node and is not examined: sqlglot keeps every clause as a part of its own.

        what   the statement is, for the error
        """
        for name, part in node.args.items():
            if part and name not in known:
                first = part[0] if isinstance(part, list) else part
                shown = first.sql(dialect="spark") if isinstance(first, exp.Expression) else name.strip("_").upper()
                raise self.error(f"{what} does not take {shown[:60]}", first if _offset(first) is not None else node)

    def _not_read(self, error: ParseError) -> InvalidInputError:
        said: Mapping[str, Any] = error.errors[0] if error.errors else {}
        reason = str(said.get("description") or str(error).splitlines()[0])
        missing = _MISSING.match(reason)
        near = said.get("highlight") or ""
        reason = reason.partition(" but got <")[0]
        if missing is not None:
            reason = f"{missing[1].upper()} is not complete"
        elif reason.startswith("Invalid expression"):
            reason = "not understood"
        # sqlglot counts columns from the end of the word.
        lines = self.text.split("\n")
        at = (
            sum(len(text) + 1 for text in lines[: int(said.get("line") or 1) - 1])
            + int(said.get("col") or 1)
            - len(near)
        )
        return self.error(f"{reason}{f', near {near!r}' if near else ''}", max(at, 0))


def statements(text: str) -> list[Statement]:
    """Split a text into its statements.

    errors   InvalidInputError for a quote or comment without end, and for a text without a statement
    """
    try:
        tokens = LakeidxSql().tokenize(text)
    except SqlglotError as error:
        reason = str(error.__cause__ or error)
        place = _PLACE.search(reason)
        if place is None:
            # sqlglot does not say where a comment has begun that does not end.
            raise Statement(text, []).error(
                "a comment that begins here does not end", max(text.rfind("/*"), 0)
            ) from None
        raise InvalidInputError(
            f"line {place[1]}, column {place[2]}: not understood: {reason.splitlines()[0]}"
        ) from None
    found = [Statement(text, part) for part in _split(tokens) if part]
    if not found:
        raise InvalidInputError("line 1, column 1: there is no statement")
    return found


def one_statement(text: str) -> Statement:
    """Return the only statement of a text; InvalidInputError for several."""
    found = statements(text)
    if len(found) > 1:
        raise found[1].error("a second statement begins here: give one at a time")
    return found[0]


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token in tokens:
        if token.token_type.name == "SEMICOLON":
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _offset(at: Node | Token | None) -> int | None:
    """Return where a node or token begins; None where sqlglot does not say."""
    if at is None:
        return None
    if not hasattr(at, "args"):
        start = getattr(at, "start", None)
        return start if isinstance(start, int) else None
    starts = [n.meta["start"] for n in at.walk() if n.meta.get("start") is not None]
    return min(starts, default=None)
