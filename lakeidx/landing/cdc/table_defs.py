"""Declarations of the source's tables in messages of rows and of DDL: types of columns and primary keys.

==========  =================================================================  ===========================================
format      types of columns                                                   primary key
==========  =================================================================  ===========================================
debezium    the ``schema`` part; ``tableChanges`` of its schema changes        ``tableChanges``
canal       ``mysqlType``                                                      ``pkNames``
maxwell     ``def`` of ``table-create`` and ``table-alter``, but for decimals  ``def``; ``primary_key_columns``
ogg         none                                                               ``primary_keys``
dms-json    ``control.table-def``, where control details are included          ``table-def``
==========  =================================================================  ===========================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeidx.format.schema.widening import is_widening
from lakeidx.landing.cdc.connect_schema import split_runs
from lakeidx.landing.cdc.envelopes import Envelope
from lakeidx.landing.cdc.events import at_path, payload_of, rows_in
from lakeidx.landing.cdc.source_tables import name_of_table
from lakeidx.landing.cdc.source_types import type_of_ddl, type_of_dms
from lakeidx.landing.text.json_values import parse_json, type_of_value
from lakeidx.types import DataType

#: Where a message of a row has the names of the primary key's columns.
_ROW_KEYS = {"canal": "pkNames", "maxwell": "primary_key_columns", "ogg": "primary_keys"}
#: Types by name, None where a column's is not told.
_Columns = dict[str, DataType | None]
_MYSQL_TYPES = re.compile(rb'"mysqlType"\s*:\s*(\{[^}]*\})')


@dataclass(slots=True)
class TableDef:
    """Knowledge of one table of the source.

    columns  declared types by name, in the order of the source; of several declarations the widest
    keys     columns of the primary key
    seen     types that values of the first rows have, for keys that nothing declares
    always   columns that every declaration, and the first row before one, has; None before the first
    """

    columns: dict[str, DataType] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    seen: dict[str, DataType] = field(default_factory=dict)
    always: set[str] | None = None

    def add(self, columns: Mapping[str, DataType | None], keys: tuple[str, ...] = ()) -> None:
        """Add a later declaration; one that holds no more than what is known changes no type.

        columns   None for one whose type is not told
        """
        for name, t in columns.items():
            if t is not None:
                known = self.columns.get(name, t)
                self.columns[name] = known if is_widening(t, known) else t
        self.keys = keys or self.keys
        self.always = {*columns} if self.always is None else self.always & columns.keys()


def declare_rows(found: TableDef, block: bytes, envelope: Envelope) -> None:
    """Add what the messages of one table's rows declare."""
    if envelope.name == "debezium":
        for run in split_runs(block):
            if run.columns:
                found.add({n: c.paimon_type() for n, c in run.columns.items()})
    if envelope.declared is not None:
        for text in dict.fromkeys(_MYSQL_TYPES.findall(block)):
            types = _parsed(text)
            found.add({n: type_of_ddl(t) for n, t in types.items() if isinstance(t, str)})
    if found.keys and found.columns:
        return
    first = _parsed(next((line for line in block.split(b"\n", 1000) if line.strip()), b""))
    found.keys = found.keys or _texts(first.get(_ROW_KEYS.get(envelope.name, "")))
    for path in (envelope.before, envelope.after):
        for row in rows_in(at_path(first, path)):
            found.seen |= {n: type_of_value(v) for n, v in row.items() if v is not None and n not in found.seen}
            if found.always is None and path == envelope.after:
                found.always = {*row}


def table_defs(message: Mapping[str, Any], envelope: Envelope) -> Iterator[tuple[str, _Columns, tuple[str, ...]]]:
    """Return the tables that a message of DDL defines: whole name, types of columns, primary key."""
    message = payload_of(message)
    if envelope.name == "debezium":
        oracle = at_path(message, ("source", "connector")) == "oracle"
        for change in message.get("tableChanges") or ():
            table = at_path(change, ("table",))
            if isinstance(table, dict):
                name, columns = str(change.get("id", "")).replace('"', ""), _objects(table.get("columns"))
                types: _Columns = {str(c.get("name")): _of_change(c, oracle=oracle) for c in columns}
                yield name, types, _texts(table.get("primaryKeyColumnNames"))
    elif envelope.name == "maxwell" and isinstance(table := message.get("def"), dict):
        yield name_of_table(message, envelope), _of_maxwell(table), _texts(table.get("primary-key"))
    elif envelope.name == "dms-json" and isinstance(table := at_path(message, ("control", "table-def")), dict):
        described = table.get("columns")
        found = described.items() if isinstance(described, dict) else ()
        types = {str(n): type_of_dms(c) for n, c in found if isinstance(c, dict)}
        yield name_of_table(message, envelope), types, _texts(table.get("primary-key"))


def _of_change(column: Mapping[str, Any], *, oracle: bool) -> DataType:
    word = str(column.get("typeName", ""))
    if oracle and word.upper() == "DATE":
        # It has a time of day, which Debezium counts in milliseconds.
        return type_of_ddl("datetime(3)")
    if word.upper() == "TIME":
        # Without a schema part the unit of its numbers is not known.
        return type_of_ddl("bigint")
    sizes = [str(column[n]) for n in ("length", "scale") if isinstance(column.get(n), int)]
    return type_of_ddl(f"{word}({','.join(sizes)})" if sizes and "(" not in word else word)


def _of_maxwell(table: Mapping[str, Any]) -> _Columns:
    columns: _Columns = {}
    for column in _objects(table.get("columns")):
        word = str(column.get("type", ""))
        if word in ("decimal", "numeric"):
            # Its definition does not tell how many digits: the values say what it holds.
            columns[str(column.get("name"))] = None
            continue
        sign = " unsigned" if column.get("signed") is False else ""
        columns[str(column.get("name"))] = type_of_ddl(f"{word}({column.get('column-length', '')}){sign}")
    return columns


def _objects(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        value = parse_json(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return {}
    return dict(payload_of(value)) if isinstance(value, dict) else {}
