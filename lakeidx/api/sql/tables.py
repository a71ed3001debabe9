"""CREATE, ALTER, TRUNCATE and DROP TABLE, COMMENT ON, SHOW and DESCRIBE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import translate
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from lakeidx.api.arrow_input import as_table
from lakeidx.api.sql.grammar import Reader, default_text, read_column_change, read_partition, read_unset
from lakeidx.api.sql.names import Places, TableName
from lakeidx.api.sql.query import Query, QueryResult
from lakeidx.api.sql.statement import Node, Statement
from lakeidx.api.sql.verbs import VerbResult, Writing
from lakeidx.api.table import Table
from lakeidx.errors import LakeIdxError, NotFoundError, did_you_mean
from lakeidx.format.schema.schema_file import TableSchema, schema_to_json
from lakeidx.maintenance.partition_argument import texts_of_partition
from lakeidx.table.newest import load_newest
from lakeidx.types import DataType, Field, Root, column_specs, to_arrow_schema

if TYPE_CHECKING:
    from lakeidx.api.warehouse import Warehouse

#: Types by sqlglot's names; those with a number take it in parentheses.
_TYPES = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INT", "BIGINT": "BIGINT", "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE", "DATE": "DATE", "TEXT": "STRING", "VARIANT": "VARIANT", "BINARY": "BYTES", "VARBINARY": "BYTES",
    "DECIMAL": "DECIMAL", "TIMESTAMPTZ": "TIMESTAMP_LTZ", "TIMESTAMPLTZ": "TIMESTAMP_LTZ", "TIMESTAMPNTZ": "TIMESTAMP",
    "TIME": "TIME",
}  # fmt: skip
_SIZED = {"VARCHAR": "VARCHAR", "CHAR": "CHAR", "BINARY": "BINARY", "VARBINARY": "VARBINARY", "DECIMAL": "DECIMAL",
          "TIMESTAMPTZ": "TIMESTAMP_LTZ", "TIMESTAMPLTZ": "TIMESTAMP_LTZ", "TIMESTAMPNTZ": "TIMESTAMP", "TIME": "TIME"}  # fmt: skip
#: Types of lakeidx as statements write them.
_SQL_NAMES = {Root.TIMESTAMP: "TIMESTAMP_NTZ", Root.TIMESTAMP_LTZ: "TIMESTAMP"}
_SQL_DIGITS = 6
_PROVIDERS = ("paimon", "lakeidx")


def _type_spec(statement: Statement, node: Node, *, nullable: bool = True) -> str | dict[str, Any]:
    """Return a column's type, which sqlglot has read, as schema JSON writes it."""
    if not isinstance(node, exp.DataType) or not isinstance(node.this, exp.DataType.Type):
        raise statement.error(f"type {node.sql(dialect='spark')} is none of a table's columns", node)
    name, end = str(node.this.name), "" if nullable else " NOT NULL"
    inner = node.expressions
    if name in ("ARRAY", "LIST") and len(inner) == 1:
        return {"type": f"ARRAY{end}", "element": _type_spec(statement, inner[0])}
    if name == "MAP" and len(inner) == 2:
        key, value = (_type_spec(statement, n) for n in inner)
        return {"type": f"MAP{end}", "key": key, "value": value}
    if name == "STRUCT" and inner:
        return {"type": f"ROW{end}", "fields": [_column_spec(statement, n) for n in inner]}
    if inner and name in _SIZED and all(isinstance(p.this, exp.Literal) for p in inner):
        return f"{_SIZED[name]}({', '.join(p.this.name for p in inner)}){end}"
    if not inner and name in _TYPES:
        return _TYPES[name] + end
    raise statement.error(f"type {node.sql(dialect='spark')} is none of a table's columns", node)


def _column_spec(statement: Statement, node: Node) -> dict[str, Any]:
    """Return a column that sqlglot has read as schema JSON writes it."""
    statement.only(node, ("this", "kind", "constraints", "position", "exists"), "a column")
    if not isinstance(node, exp.ColumnDef) or node.kind is None:
        raise statement.error("a column has a name and a type", node)
    spec: dict[str, Any] = {"name": node.name}
    nullable = True
    for constraint in node.args.get("constraints") or ():
        kind = constraint.kind
        if isinstance(kind, exp.NotNullColumnConstraint):
            nullable = bool(kind.args.get("allow_null"))
        elif isinstance(kind, exp.CommentColumnConstraint):
            spec["description"] = _text(statement, kind.this)
        elif isinstance(kind, exp.DefaultColumnConstraint):
            spec["defaultValue"] = _text(statement, kind.this)
        else:
            raise statement.error(f"a column does not take {constraint.sql(dialect='spark')}", node)
    return {**spec, "type": _type_spec(statement, node.kind, nullable=nullable)}


def _text(statement: Statement, node: Node) -> str:
    """Return a literal as a schema keeps it, as text; two texts one behind the other are one."""
    if isinstance(node, exp.Concat):
        return "".join(_text(statement, n) for n in node.expressions)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return f"-{node.this.name}"
    if isinstance(node, exp.Boolean):
        return default_text(node.this)
    if isinstance(node, (exp.Literal, exp.Var)):
        return str(node.name)
    raise statement.error("a literal must stand here", node)


# -- CREATE, DROP ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewTable:
    """A CREATE TABLE taken apart.

    spec     as schema JSON writes it; its fields are those of a query where there is one
    exists   nothing is to be done where there is a table of this name
    """

    name: tuple[str, ...]
    spec: dict[str, Any]
    exists: bool
    query: Node

    @classmethod
    def of(cls, statement: Statement, tree: Node, places: Places) -> NewTable:
        """Take a CREATE TABLE apart; InvalidInputError for clauses that are not understood."""
        if tree.args.get("kind") != "TABLE":
            a_database = tree.args.get("kind") in ("DATABASE", "SCHEMA")
            more = "; a database is there with its first table" if a_database else ""
            raise statement.error(f"CREATE takes TABLE{more}", statement.tokens[1])
        if tree.args.get("replace"):
            raise statement.error(
                "CREATE TABLE takes no OR REPLACE: INSERT OVERWRITE replaces rows, DROP TABLE IF EXISTS the table",
                statement.find(["REPLACE"]),
            )
        statement.only(tree, ("this", "kind", "exists", "properties", "expression"), "CREATE TABLE")
        node = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        columns = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
        spec, hive_columns, like = _properties(statement, tree)
        keys = [c for c in columns if isinstance(c, exp.PrimaryKey)]
        for key in keys:
            spec["primaryKeys"] = [p.name for p in key.expressions]
        fields = [_column_spec(statement, c) for c in (*columns, *hive_columns) if c not in keys]
        if bool(fields) + (tree.expression is not None) + (like is not None) > 1:
            raise statement.error("CREATE TABLE takes columns, AS with a query, or LIKE with a table", node)
        if like is not None:
            known = schema_to_json(places.table(statement, like).schema)
            spec = {**known, **spec, "options": {**known["options"], **spec["options"]}}
            fields = known["fields"]
        parts = TableName.of(statement, node).parts
        return cls(parts, {**spec, "fields": fields}, bool(tree.args.get("exists")), tree.expression)


def create_table(statement: Statement, tree: Node, places: Places, warehouse: Warehouse) -> QueryResult | VerbResult:
    """Run CREATE TABLE, with a query also what inserts its rows."""
    new = NewTable.of(statement, tree, places)
    name = ".".join(new.name)
    if new.exists and name in warehouse:
        return result_of({"result": [f"{name} is there"]})
    if new.query is None:
        warehouse.create(name, new.spec, exist_ok=new.exists)
        return result_of({"result": [f"created {name}"]})
    found = Query(statement, new.query, places).result()
    made = warehouse.create(name, {**new.spec, "fields": column_specs(found.arrow_schema)})
    with dropped_if_empty(made):
        return VerbResult.of(made.upsert(found.to_reader()))


@contextmanager
def dropped_if_empty(made: Table) -> Iterator[None]:
    """Drop a table that a query cannot fill: nobody has seen it with rows."""
    try:
        yield
    except LakeIdxError:
        from lakeidx.api.warehouse import drop_table

        if made.metadata.latest_snapshot() is None:
            drop_table(made)
        raise


def _properties(statement: Statement, tree: Node) -> tuple[dict[str, Any], list[Node], Node]:
    """Return comment, partitions and options of a CREATE TABLE, columns among its partitions, and a table that it is LIKE."""
    options: dict[str, str] = {}
    spec: dict[str, Any] = {"options": options}
    columns: list[Node] = []
    like = None
    properties = tree.args.get("properties")
    for part in () if properties is None else properties.expressions:
        if type(part) is exp.Property:
            options[_option_name(part.this)] = _text(statement, part.args["value"])
        elif isinstance(part, exp.SchemaCommentProperty):
            spec["comment"] = _text(statement, part.this)
        elif isinstance(part, exp.PartitionedByProperty):
            names = part.this.expressions
            wrong = next((n for n in names if not isinstance(n, (exp.Identifier, exp.Column, exp.ColumnDef))), None)
            if wrong is not None:
                raise statement.error("PARTITIONED BY takes names of columns, or new columns with their types", wrong)
            spec["partitionKeys"] = [n.name for n in names]
            # As in Hive these come after the others.
            columns = [n for n in names if isinstance(n, exp.ColumnDef)]
        elif isinstance(part, exp.LikeProperty) and not part.expressions:
            like = part.this
        elif not (isinstance(part, exp.FileFormatProperty) and part.name.lower() in _PROVIDERS):
            raise statement.error(f"CREATE TABLE does not take {part.sql(dialect='spark')[:60]}", part)
    return spec, columns, like


def _option_name(node: Node) -> str:
    return ".".join(p.name for p in node.flatten()) if isinstance(node, exp.Dot) else str(node.name)


def drop_named(statement: Statement, tree: Node, warehouse: Warehouse) -> QueryResult:
    """Run DROP TABLE: the table and its files are gone."""
    if tree.args.get("kind") != "TABLE":
        raise statement.error("DROP takes TABLE", statement.tokens[1])
    statement.only(tree, ("kind", "exists", "purge", "tables", "this"), "DROP TABLE")
    (node,) = tree.args.get("tables") or [tree.this]
    name = TableName.of(statement, node)
    if name.system or name.branch:
        raise statement.error("DROP TABLE takes a table", node)
    written = ".".join(name.parts)
    if tree.args.get("exists") and written not in warehouse:
        return result_of({"result": [f"{written} is not there"]})
    try:
        warehouse.drop(written)
    except NotFoundError as error:
        raise NotFoundError(statement.error(error.message, node).message) from None
    return result_of({"result": [f"dropped {written}"]})


def truncate(statement: Statement, tree: Node, places: Places, how: Writing) -> QueryResult:
    """Run TRUNCATE TABLE: the table has no rows any more, or not those of a partition; older states stay."""
    statement.only(tree, ("expressions", "partition"), "TRUNCATE TABLE")
    node, *more = tree.expressions
    if more:
        raise statement.error("TRUNCATE TABLE takes one table", more[0])
    if tree.args.get("partition") is not None:
        return _without_partitions(statement, node, places)
    table = places.table(statement, node)
    table.overwrite(to_arrow_schema(table.schema.fields).empty_table(), whole_table=True, **how)
    return result_of({"result": [f"{'.'.join(p.name for p in node.parts)} is empty"]})


# -- ALTER ---------------------------------------------------------------------------------------------------------------


def alter_named(statement: Statement, places: Places, warehouse: Warehouse | None) -> QueryResult:
    """Run ALTER TABLE; the result lists what has changed."""
    reader = Reader(statement, 1)
    reader.need("TABLE")
    node = reader.table()
    if reader.take("RENAME", "TO"):
        return _renamed(statement, node, reader, places, warehouse)
    if reader.take("DROP", "IF", "EXISTS", "PARTITION"):
        return _without_partitions(statement, node, places, missing_ok=True)
    if reader.take("DROP", "PARTITION"):
        return _without_partitions(statement, node, places)
    edits: dict[str, Any]
    if reader.take("ALTER") or reader.take("CHANGE"):
        column, change, value = read_column_change(reader)
        edits = {change: {column: _type_spec(statement, value) if change == "types" else value}}
    elif reader.take("UNSET", "TBLPROPERTIES"):
        named = list(read_unset(reader))
        # As in Paimon this is no option, but the table's own.
        edits = {"reset": [n for n in named if n != "comment"], **({"comment": ""} if "comment" in named else {})}
    else:
        tree = statement.parse()
        statement.only(tree, ("this", "kind", "actions"), "ALTER TABLE")
        edits = {}
        for action in tree.args["actions"]:
            for key, value in _action_edits(statement, action, places.table(statement, node).schema).items():
                known = edits.get(key, type(value)())
                edits[key] = (
                    value if isinstance(value, str) else [*known, *value] if isinstance(value, list) else known | value
                )
    return _altered(places.table(statement, node), edits)


def comment_on(statement: Statement, tree: Node, places: Places) -> QueryResult:
    """Run COMMENT ON TABLE or COLUMN."""
    statement.only(tree, ("this", "kind", "expression"), "COMMENT ON")
    *path, last = tree.this.parts
    text = _text(statement, tree.expression)
    if tree.args["kind"] == "TABLE":
        return _altered(places.table(statement, tree.this), {"comment": text})
    if tree.args["kind"] != "COLUMN" or not path:
        raise statement.error("COMMENT ON takes TABLE database.table, or COLUMN database.table.column", tree.this)
    table = exp.Table(**dict(zip(("this", "db", "catalog"), reversed(path), strict=False)))
    return _altered(places.table(statement, table), {"comments": {last.name: text}})


def _altered(table: Table, edits: dict[str, Any]) -> QueryResult:
    result = table.alter(**edits)
    rows = [
        {"what": d.what, "name": d.name, "change": d.change, "before": d.before, "after": d.after}
        for d in result.differences
    ]
    names = ("what", "name", "change", "before", "after")
    return QueryResult.of(pa.table({n: pa.array([r[n] for r in rows], pa.string()) for n in names}))


def _renamed(
    statement: Statement, node: Node, reader: Reader, places: Places, warehouse: Warehouse | None
) -> QueryResult:
    old, to = TableName.of(statement, node), reader.path()
    reader.end()
    if warehouse is None:
        raise statement.error("RENAME TO is for a warehouse: a name of Spark's catalog is renamed by spark.sql", node)
    if old.branch or old.system or len(to) > 2:
        raise statement.error("RENAME TO takes a table, and database.table or a name", node)
    name = ".".join(to if len(to) == 2 else [old.parts[0], *to])
    places.table(statement, node)
    warehouse.rename(".".join(old.parts), name)
    return result_of({"result": [f"{'.'.join(old.parts)} is now {name}"]})


def _without_partitions(statement: Statement, node: Node, places: Places, *, missing_ok: bool = False) -> QueryResult:
    """Drop the partitions that ``DROP PARTITION (day = 'a'), PARTITION (day = 'b')`` names."""
    at = next(n for n in range(len(statement.tokens)) if statement.word(n) == "PARTITION")
    reader, table = Reader(statement, at), places.table(statement, node)
    gone: dict[str, None] = {}
    while not reader.done:
        if gone or reader.at > at:
            reader.need(",")
        first, asked = reader.at, read_partition(reader)
        if not asked:
            raise reader.refusal("PARTITION (column = value) must stand here")
        found = _partitions(statement, table, asked)
        if not found and not missing_ok:
            raise NotFoundError(
                statement.error("no partition is there with these values", statement.tokens[first]).message
            )
        gone |= dict.fromkeys(",".join(f"{k}={v}" for k, v in texts.items()) for texts in found)
    if gone:
        table.drop_partitions(list(gone))
    return result_of({"result": [f"dropped {n}" for n in gone]})


def _partitions(statement: Statement, table: Table, asked: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the partitions that have some values, as texts by column."""
    schema = table.schema
    if not schema.partition_keys:
        raise statement.error("the table has no partitions", statement.find([table.paths.root.rpartition("/")[2]]))
    unknown = [n for n in asked if n not in schema.partition_keys]
    if unknown:
        raise statement.error(f"partitions are of {', '.join(schema.partition_keys)}", statement.find(unknown))
    null = schema.table_options.partition_default_name
    wanted = {k: null if v is None else default_text(v) for k, v in asked.items()}
    found = (texts_of_partition(p, schema) for p in load_newest(table.metadata).entries.partition_counts())
    return [texts for texts in found if wanted.items() <= texts.items()]


def _action_edits(statement: Statement, action: Node, schema: TableSchema) -> dict[str, Any]:
    """Return what a part of ALTER TABLE changes, as `lakeidx.Table.alter` takes it."""
    if isinstance(action, exp.ColumnDef):
        return _added(statement, [action])
    if isinstance(action, exp.Schema):
        return _added(statement, action.expressions)
    if isinstance(action, exp.Drop):
        statement.only(action, ("tables", "kind", "exists"), "DROP COLUMN")
        if action.args.get("kind") in ("COLUMN", "COLUMNS"):
            names = [n for t in action.args["tables"] for n in (t.expressions if isinstance(t, exp.Schema) else [t])]
            gone = [_path(n) for n in names]
            there = [n for n in gone if n.partition(".")[0] in schema.field_names]
            return {"drop": there if action.args.get("exists") else gone}
    if isinstance(action, exp.RenameColumn) and not action.args.get("exists"):
        return {"rename": {_path(action.this): action.args["to"].name}}
    if isinstance(action, exp.AlterSet):
        statement.only(action, ("expressions",), "SET")
        pairs = [p for e in action.expressions for p in (e.expressions if isinstance(e, exp.Properties) else [e])]
        if all(type(p) is exp.Property for p in pairs):
            options = {_option_name(p.this): _text(statement, p.args["value"]) for p in pairs}
            # As in Paimon this is no option, but the table's own.
            comment = {"comment": options.pop("comment")} if "comment" in options else {}
            return comment | ({"set": options} if options else {})
    raise statement.error(f"ALTER TABLE does not take {action.sql(dialect='spark')[:60]}", action)


def _added(statement: Statement, columns: Iterable[Node]) -> dict[str, Any]:
    edits: dict[str, dict[str, Any]] = {"add": {}, "comments": {}, "defaults": {}, "move": {}}
    for column in columns:
        if not isinstance(column, exp.ColumnDef) or column.args.get("exists"):
            raise statement.error("ADD COLUMN takes a name and a type", column)
        spec, name = _column_spec(statement, column), _path(column.this)
        edits["add"][name] = spec["type"]
        for key, part in (("comments", "description"), ("defaults", "defaultValue")):
            if part in spec:
                edits[key][name] = spec[part]
        position = column.args.get("position")
        if position is not None:
            edits["move"][name] = "first" if position.args["position"] == "FIRST" else f"after {position.this.name}"
    return {k: v for k, v in edits.items() if v}


def _path(node: Node) -> str:
    """Return the name of a column with the path to it."""
    if isinstance(node, exp.Column):
        return ".".join(p.name for p in node.parts)
    return ".".join(p.name for p in node.flatten()) if isinstance(node, exp.Dot) else str(node.name)


# -- SHOW, DESCRIBE ------------------------------------------------------------------------------------------------------


def show(statement: Statement, places: Places, warehouse: Warehouse | None) -> QueryResult:
    """Run a SHOW; columns have Spark's names."""
    reader = Reader(statement, 1)
    if reader.take("TABLES"):
        database = reader.name() if reader.take("IN") or reader.take("FROM") else None
        like = _pattern(reader)
        pairs = [n.split(".", 1) for n in _of_catalog(statement, warehouse, "TABLES").tables(database)]
        names = _matching([n for _, n in pairs], like)
        pairs = [p for p in pairs if p[1] in names]
        return result_of({"namespace": [p[0] for p in pairs], "tableName": [p[1] for p in pairs]})
    if reader.take("DATABASES") or reader.take("SCHEMAS") or reader.take("NAMESPACES"):
        like = _pattern(reader)
        return result_of({"namespace": _matching(_of_catalog(statement, warehouse, "DATABASES").databases(), like)})
    if reader.take("CREATE", "TABLE"):
        node = reader.table()
        reader.end()
        name = ".".join(_name(p.name) for p in node.parts)
        return result_of({"createtab_stmt": [_create_statement(name, places.table(statement, node).schema)]})
    if reader.take("COLUMNS"):
        if not reader.take("IN"):
            reader.need("FROM")
        node = reader.table_in_database()
        reader.end()
        return result_of({"col_name": list(places.table(statement, node).schema.field_names)})
    if reader.take("PARTITIONS"):
        node, asked = reader.table(), read_partition(reader)
        reader.end()
        found = _partitions(statement, places.table(statement, node), asked)
        return result_of({"partition": sorted("/".join(f"{k}={v}" for k, v in texts.items()) for texts in found)})
    if not reader.take("TBLPROPERTIES"):
        raise reader.refusal(
            "SHOW takes TABLES, DATABASES, COLUMNS IN t, PARTITIONS t, TBLPROPERTIES t or CREATE TABLE t"
        )
    node, key = reader.table(), None
    if reader.take("("):
        key = reader.text()
        reader.need(")")
    reader.end()
    pairs = [[k, v] for k, v in sorted(_options(places.table(statement, node).schema).items()) if key in (None, k)]
    if key is not None and not pairs:
        raise statement.error(f"the table does not set option {key!r}", node)
    return result_of({"key": [p[0] for p in pairs], "value": [p[1] for p in pairs]})


def _pattern(reader: Reader) -> str | None:
    """Read the rest of a statement, a pattern of names: ``*`` for any characters, ``|`` between several."""
    like = reader.text() if reader.take("LIKE") or not reader.done else None
    reader.end()
    return like


def _of_catalog(statement: Statement, warehouse: Warehouse | None, what: str) -> Warehouse:
    if warehouse is None:
        raise statement.error(f"SHOW {what} is for spark.sql: it knows the names of its catalog")
    return warehouse


def result_of(columns: Mapping[str, Sequence[str | None]]) -> QueryResult:
    """Make a result of texts by column."""
    return QueryResult.of(pa.table({n: pa.array(list(v), pa.string()) for n, v in columns.items()}))


def _matching(names: Sequence[str], like: str | None) -> list[str]:
    """Return names that match a pattern of Spark: ``*`` stands for any characters, ``|`` between several, case counts not."""
    if like is None:
        return list(names)
    wanted = [re.compile(translate(p.strip()), re.IGNORECASE) for p in like.replace("%", "*").split("|")]
    return [n for n in names if any(p.match(n) for p in wanted)]


def _options(schema: TableSchema) -> dict[str, str]:
    keys = {"primary-key": ",".join(schema.primary_keys), "partition": ",".join(schema.partition_keys)}
    return {**schema.options, **{k: v for k, v in keys.items() if v}}


def _sql_type(t: DataType) -> str:
    """Return a type as a statement writes it; `_type_spec` reads it again."""
    if t.root in _SQL_NAMES:
        digits = "" if t.precision == _SQL_DIGITS else f"({t.precision})"
        return _SQL_NAMES[t.root] + digits
    if t.root is Root.VARBINARY and str(t.with_nullable(True)) == "BYTES":
        return "BINARY"
    if t.root is Root.ARRAY and t.element is not None:
        return f"ARRAY<{_sql_type(t.element)}>"
    if t.root is Root.MAP and t.element is not None and t.key is not None:
        return f"MAP<{_sql_type(t.key)}, {_sql_type(t.element)}>"
    if t.root is Root.ROW:
        return f"STRUCT<{', '.join(_struct_field(f) for f in t.fields)}>"
    return str(t.with_nullable(True))


def _struct_field(field: Field) -> str:
    return f"{_name(field.name)}: {_sql_type(field.type)}{_constraints(field)}"


def _name(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII) else "`" + text.replace("`", "``") + "`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _constraints(field: Field) -> str:
    text = "" if field.type.nullable else " NOT NULL"
    if field.default_value is not None:
        text += f" DEFAULT {_literal(field.default_value)}"
    return text + (f" COMMENT {_literal(field.description)}" if field.description else "")


def _create_statement(name: str, schema: TableSchema) -> str:
    """Return the CREATE TABLE that makes a table like one."""
    columns = ",\n".join(f"  {_name(f.name)} {_sql_type(f.type)}{_constraints(f)}" for f in schema.fields)
    text = f"CREATE TABLE {name} (\n{columns})"
    if schema.comment:
        text += f"\nCOMMENT {_literal(schema.comment)}"
    if schema.partition_keys:
        text += f"\nPARTITIONED BY ({', '.join(map(_name, schema.partition_keys))})"
    options = {**schema.options, **({"primary-key": ",".join(schema.primary_keys)} if schema.primary_keys else {})}
    pairs = ",\n".join(f"  {_literal(k)} = {_literal(v)}" for k, v in sorted(options.items()))
    return f"{text}\nTBLPROPERTIES (\n{pairs})" if pairs else text


def describe(statement: Statement, places: Places) -> QueryResult:
    """Run DESCRIBE: columns, key and partitions; with EXTENDED also what else is known of the table; HISTORY lists its snapshots.

    Of one column, when it is named.
    """
    reader = Reader(statement, 1)
    if reader.take("HISTORY"):
        found = places.table(statement, reader.table())
        reader.end()
        return QueryResult.of(as_table(found.system("snapshots")))
    more = False
    while statement.word(reader.at) in ("TABLE", "EXTENDED", "FORMATTED") and statement.word(reader.at + 1) not in (
        "",
        ".",
    ):
        more |= reader.next().text.upper() != "TABLE"
    node = reader.table()
    fields = places.fields(statement, node)
    if not reader.done:
        names = {f.name.lower(): f for f in fields}
        asked = reader.name()
        reader.end()
        if asked.lower() not in names:
            said = f"the table has no column {asked!r}; {did_you_mean(asked, [f.name for f in fields])}"
            raise statement.error(said, statement.find([asked]))
        field = names[asked.lower()]
        shown = {"col_name": field.name, "data_type": _sql_type(field.type), "comment": field.description or "NULL"}
        return result_of({"info_name": list(shown), "info_value": list(shown.values())})
    rows = [(f.name, _sql_type(f.type) + ("" if f.type.nullable else " NOT NULL"), f.description) for f in fields]
    if TableName.of(statement, node).system is not None:
        return _described(rows)
    table = places.table(statement, node)
    schema = table.schema
    rows += [("# primary key", ", ".join(schema.primary_keys), None)] if schema.primary_keys else []
    rows += [("# partitioned by", ", ".join(schema.partition_keys), None)] if schema.partition_keys else []
    if more:
        rows += _details(table)
    return _described(rows)


def _described(rows: Sequence[tuple[str, str, str | None]]) -> QueryResult:
    return result_of({n: [r[i] for r in rows] for i, n in enumerate(("col_name", "data_type", "comment"))})


def _details(table: Table) -> list[tuple[str, str, str | None]]:
    schema, snapshot = table.schema, table.snapshot
    details = {"location": table.uri, "schema id": str(schema.id), "bucket mode": schema.bucket_mode.name}
    if schema.comment:
        details["comment"] = schema.comment
    if snapshot is not None:
        details |= {"snapshot": str(snapshot.id), "stored rows": str(snapshot.total_record_count)}
    details |= {f"option {k}": v for k, v in sorted(schema.options.items())}
    return [(f"# {k}", v, None) for k, v in details.items()]
