"""The prompt of ``lakeidx sql``: statements over several lines, words that complete, and what was typed before."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lakeidx.api.sql.procedures import COMPACT_DATABASE, PROCEDURES
from lakeidx.api.sql.statement import Statement, statements
from lakeidx.errors import InvalidInputError, LakeIdxError
from lakeidx.table.system.names import SYSTEM_TABLES
from lakeidx.table.system.of_warehouse import WAREHOUSE_TABLES

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from lakeidx.api.warehouse import Warehouse

#: Words of statements.
_WORDS = re.findall(
    r"\w+",
    """SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT JOIN LEFT ON USING WITH UNION ALL AS AND OR NOT IN IS NULL LIKE BETWEEN CASE
    WHEN THEN ELSE END DISTINCT COUNT SUM MIN MAX AVG INSERT INTO OVERWRITE VALUES PARTITION UPDATE SET DELETE MERGE MATCHED SOURCE
    CREATE TABLE PARTITIONED TBLPROPERTIES ALTER ADD COLUMN COLUMNS DROP RENAME TO TYPE COMMENT UNSET DESCRIBE EXTENDED SHOW TABLES
    DATABASES PARTITIONS HISTORY EXPLAIN CALL VERSION TIMESTAMP OF TRUNCATE""",
)
_WORD = re.compile(r"[\w.$]+")
_ENDS = ("exit", "quit")


class Words:
    """Words that complete what is typed: those of SQL, tables, columns of the tables that are named, and procedures."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._tables: list[str] | None = None
        self._columns: dict[str, tuple[str, ...]] = {}

    def forget(self) -> None:
        """Look again for tables and columns: a statement may have made others."""
        self._tables = None
        self._columns = {}

    def completions(self, text: str) -> tuple[str, list[str]]:
        """Return the word that is being typed at the end of a text, and what it may become."""
        found = re.search(r"[\w.$]*$", text)
        typed = found[0] if found else ""
        if not typed:
            return "", []
        last = typed.rpartition(".")[2] if "." in typed else typed
        table, dollar, _ = typed.partition("$")
        there = [f"{table}${n}" for n in SYSTEM_TABLES] if dollar else self._named()
        near = [
            n
            for n in (*there, *(f"sys.{p}" for p in (*WAREHOUSE_TABLES, *PROCEDURES, COMPACT_DATABASE)))
            if _begins(n, typed)
        ]
        columns = [c for c in self._columns_of(text) if _begins(c, last)]
        if near or "." in typed:
            # After a dot stands a column of an alias, or a table.
            return (typed, near) if near else (last, columns)
        return typed, [*columns, *(w for w in _WORDS if _begins(w, typed))]

    def _named(self) -> list[str]:
        if self._tables is None:
            self._tables = self._warehouse.tables()
        return self._tables

    def _columns_of(self, text: str) -> list[str]:
        out: dict[str, None] = {}
        for name in set(_WORD.findall(text)) & set(self._named()):
            if name not in self._columns:
                self._columns[name] = self._warehouse.table(name).schema.field_names
            out.update(dict.fromkeys(self._columns[name]))
        return list(out)


def _begins(word: str, typed: str) -> bool:
    return word.lower().startswith(typed.lower())


def is_complete(text: str) -> bool:
    """Return True where Enter ends a text: after a semicolon, for nothing, and for a word that leaves."""
    return not text.strip() or text.rstrip().endswith(";") or text.strip().lower() in _ENDS


def history_file() -> Path:
    """Return the file of what was typed, in the user's folder for such things, which is made."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "lakeidx"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "sql_history"


def _make_session(words: Words, input: Input | None = None, output: Output | None = None) -> PromptSession[str]:
    """Make the prompt.

    input, output   in place of the terminal
    errors          InvalidInputError where prompt_toolkit is not installed
    """
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
        from prompt_toolkit.document import Document
        from prompt_toolkit.history import FileHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    except ImportError as error:
        raise InvalidInputError("the prompt needs prompt_toolkit: pip install 'lakeidx[sql]'") from error

    class _Completer(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            try:
                typed, found = words.completions(document.text_before_cursor)
            except LakeIdxError:
                # The statement says what is wrong with the warehouse, once it runs.
                return
            yield from (Completion(word, start_position=-len(typed)) for word in found)

    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return PromptSession(
        "sql> ",
        multiline=True,
        prompt_continuation="  -> ",
        key_bindings=keys,
        history=FileHistory(str(history_file())),
        completer=ThreadedCompleter(_Completer()),
        complete_while_typing=False,
        input=input,
        output=output,
    )


def run_prompt(
    warehouse: Warehouse, run: Callable[[Statement], None], input: Input | None = None, output: Output | None = None
) -> None:
    """Ask for statements, and run each, until the end of the input; an error is one line, and the prompt goes on."""
    words = Words(warehouse)
    session = _make_session(words, input, output)
    typer.echo(f"{warehouse.uri}: a statement ends with ; and Enter, exit or Ctrl-D leave", err=True)
    while True:
        try:
            text = session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.strip().lower() in _ENDS:
            return
        if not text.strip():
            continue
        try:
            for statement in statements(text):
                run(statement)
        except LakeIdxError as error:
            typer.echo(f"lakeidx: {' '.join(str(error).split())}", err=True)
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
        words.forget()
