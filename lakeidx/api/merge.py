"""Merge of a source into a table: rows that match are updated or deleted, others inserted, as one batch.

By the primary key only the files that may hold keys of the source are read, and a hash table of its keys matches rows; by another
condition, or with clauses for rows that the source does not have, the table is scanned once, and DuckDB joins. Expressions are for
DuckDB; columns that none changes are taken as they are stored. Names and order of clauses are Delta Lake's: of a row the first
clause counts whose condition holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.api.arrow_input import Rows as GivenRows
from lakeidx.api.arrow_input import as_table
from lakeidx.api.expressions import ROW, Rows, as_column, assigned, check_assignments, columns_named, quoted
from lakeidx.api.table import plannable
from lakeidx.api.verbs import (
    WantedKeys,
    as_deletes,
    check_deletable,
    check_updatable,
    columns_of_deletes,
    rows_of_keys,
    run_verb,
    with_columns,
)
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.options.limits import GivenLimits
from lakeidx.table.newest import on_newest
from lakeidx.table.scan.table_scan import scan_committed

if TYPE_CHECKING:
    from lakeidx.api.table import Table
    from lakeidx.batch.committed_batch import BatchResult
    from lakeidx.batch.upsert import OnStage
    from lakeidx.tasks.runner import RunnerLike

Int64s = npt.NDArray[np.int64]
#: Columns that a clause sets: None for all that the source has.
Assignments = Mapping[str, Any] | None
#: The clauses of a merge that names none: rows that match are changed, others inserted.
UPSERT = ("MATCHED THEN UPDATE SET *", "NOT MATCHED THEN INSERT *")
#: What a clause is about.
MATCHED, NOT_MATCHED, BY_SOURCE = "matched", "not matched", "not matched by source"


@dataclass(frozen=True, slots=True)
class MergeClause:
    """Clause of a merge: what becomes of some rows.

    of      matched, not matched (in the source only), or not matched by source (in the table only)
    action  update, delete or insert
    condition   SQL, or what else the one who runs it takes
    """

    of: str
    action: str
    condition: Any = None
    columns: Assignments = None


def on_of(text: str) -> list[str] | str:
    """Read what rows are joined on from a text: names of columns, ``id,day``, or a condition."""
    return text if "=" in text else [name.strip() for name in text.split(",")]


_TWICE = "two rows of the source are for one row of the table: leave one of them"


def _each_key_once(schema: TableSchema, rows: pa.Table) -> pa.Table:
    keys = list(schema.primary_keys)
    if rows.select(keys).group_by(keys).aggregate([]).num_rows < rows.num_rows:
        raise InvalidInputError(_TWICE)
    return rows


def _each_row_once(numbers: pa.ChunkedArray) -> None:
    """Refuse a row of the table that several rows of the source match."""
    if np.bincount(numbers.drop_null()).max(initial=0) > 1:
        raise InvalidInputError(_TWICE)


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column(ROW, pa.array(np.arange(rows.num_rows)))


def _taken(rows: pa.Table, numbers: pa.ChunkedArray) -> pa.Table:
    """Return some rows; without a copy when it is all of them in their order."""
    if len(numbers) == rows.num_rows and np.array_equal(numbers, np.arange(rows.num_rows)):
        return rows
    return rows.take(numbers)


def clause_of(when: Any, dialect: Any = "duckdb") -> MergeClause:
    """Return a clause of sqlglot's.

    dialect  that its expressions become
    errors   InvalidInputError for an action that is none of the three
    """
    from sqlglot import exp

    def sql(node: Any) -> str:
        return str(node.sql(dialect=dialect))

    of = MATCHED if when.args["matched"] else BY_SOURCE if when.args.get("source") else NOT_MATCHED
    condition, then = when.args.get("condition"), when.args["then"]
    said = None if condition is None else sql(condition)
    extra = [name for name, part in then.args.items() if part and name not in ("this", "expression", "expressions")]
    if isinstance(then, exp.Update) and of != NOT_MATCHED and not extra:
        star = len(then.expressions) == 1 and isinstance(then.expressions[0], exp.Star)
        if star or all(isinstance(e, exp.EQ) and isinstance(e.left, exp.Column) for e in then.expressions):
            return MergeClause(
                of, "update", said, None if star else {e.left.name: sql(e.right) for e in then.expressions}
            )
    if isinstance(then, exp.Insert) and of == NOT_MATCHED and not extra:
        if isinstance(then.this, exp.Star):
            return MergeClause(of, "insert", said)
        if then.this is not None and len(then.this.expressions) == len(then.expression.expressions):
            values = zip(then.this.expressions, then.expression.expressions, strict=True)
            return MergeClause(of, "insert", said, {column.name: sql(value) for column, value in values})
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE" and of != NOT_MATCHED:
        return MergeClause(of, "delete", said)
    raise InvalidInputError(
        f"{of} then {then.sql()[:60]}: rows that match are updated or deleted, those not matched inserted, with as many values "
        "as columns"
    )


@dataclass(slots=True)
class Merge:
    """A merge that is put together clause by clause, and run by `execute`.

    table    the target
    source   rows, each of which matches at most one row of the table; or what makes them, again with each try
    on       columns that both have, or a condition as ``target.id = source.customer_id``
    aliases  names of the table and of the source in expressions
    """

    table: Table
    source: GivenRows | Callable[[], GivenRows]
    on: Sequence[str] | str
    aliases: tuple[str, str] = ("target", "source")
    _clauses: list[MergeClause] = field(default_factory=list)
    #: Rows of the last run by kind (+I, +U, -D); None where no row of the table was read, which would tell new keys from known.
    kinds: dict[str, int] | None = None

    def when_matched_update(self, columns: Mapping[str, Any], condition: str | None = None) -> Merge:
        """Change columns of matched rows: ``{"name": "source.name", "qty": "target.qty + source.qty"}``."""
        return self.with_clause(MergeClause(MATCHED, "update", condition, columns))

    def when_matched_update_all(self, condition: str | None = None) -> Merge:
        """Change matched rows to what the source has, in all columns that it has."""
        return self.with_clause(MergeClause(MATCHED, "update", condition))

    def when_matched_delete(self, condition: str | None = None) -> Merge:
        """Delete matched rows."""
        return self.with_clause(MergeClause(MATCHED, "delete", condition))

    def when_not_matched_insert(self, columns: Mapping[str, Any], condition: str | None = None) -> Merge:
        """Insert rows of the source that match none; columns that are not named are null."""
        return self.with_clause(MergeClause(NOT_MATCHED, "insert", condition, columns))

    def when_not_matched_insert_all(self, condition: str | None = None) -> Merge:
        """Insert rows of the source that match none, with all columns that it has."""
        return self.with_clause(MergeClause(NOT_MATCHED, "insert", condition))

    def when_not_matched_by_source_update(self, columns: Mapping[str, Any], condition: str | None = None) -> Merge:
        """Change rows of the table that no row of the source matches; the whole table is read."""
        return self.with_clause(MergeClause(BY_SOURCE, "update", condition, columns))

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> Merge:
        """Delete rows of the table that no row of the source matches; the whole table is read."""
        return self.with_clause(MergeClause(BY_SOURCE, "delete", condition))

    def when(self, clause: str) -> Merge:
        """Add a clause as SQL writes it: ``MATCHED AND source.gone THEN DELETE``, ``NOT MATCHED THEN INSERT *``."""
        import sqlglot

        text = re.sub(r"^\s*WHEN\s+", "", clause, flags=re.IGNORECASE)
        try:
            tree: Any = sqlglot.parse_one(f"MERGE INTO a USING b ON a.k = b.k WHEN {text}", dialect="databricks")
            (found,) = tree.args["whens"].expressions
        except (sqlglot.ParseError, ValueError, KeyError, AttributeError) as error:
            raise InvalidInputError(
                f"when {clause!r}: write a clause such as MATCHED THEN UPDATE SET name = source.name, "
                "NOT MATCHED THEN INSERT *, NOT MATCHED BY SOURCE THEN DELETE"
            ) from error
        return self.with_clause(clause_of(found))

    @plannable
    def execute(
        self,
        *,
        batch_id: str | None = None,
        dry_run: bool = False,
        limits: GivenLimits | None = None,
        runner: RunnerLike = None,
        on_stage: OnStage | None = None,
    ) -> BatchResult | None:
        """Run the merge as one batch.

        dry_run, limits   as for `lakeidx.Table.upsert`
        returns  None when no row is changed: then nothing is written
        errors   InvalidInputError for a source that matches one row twice, unknown columns, conditions that DuckDB does not
                 understand; UnsupportedError for a merge engine that cannot do an action; those of `lakeidx.Table.upsert`
        memory   the source, and the rows of the table that may match: all of them with clauses for those not in the source
        """
        schema = self.table.schema
        self._check(schema)

        def changes() -> pa.Table:
            given = self.source() if callable(self.source) else self.source
            return self._changes(schema, as_table(given, schema.fields))

        return run_verb(
            self.table,
            "MERGE",
            changes,
            batch_id=batch_id,
            limits=limits,
            runner=runner,
            on_stage=on_stage,
        )

    def with_clause(self, clause: MergeClause) -> Merge:
        """Add a clause as `clause_of` makes it."""
        self._clauses.append(clause)
        return self

    def _check(self, schema: TableSchema) -> None:
        if not self._clauses:
            raise InvalidInputError("a merge needs a clause, such as when_matched_update_all()")
        if any(c.action == "delete" for c in self._clauses):
            check_deletable(schema)
        check_updatable(schema)
        for clause in self._clauses:
            if clause.columns is not None:
                keys = schema.primary_keys if clause.action == "update" else ()
                check_assignments(clause.columns, schema.fields_by_name, keys)

    # -- matching --------------------------------------------------------------------------------------------------

    def _changes(self, schema: TableSchema, source: pa.Table) -> pa.Table:
        """Return the rows of the batch with their kinds."""
        missing = [] if isinstance(self.on, str) else [n for n in self.on if n not in source.column_names]
        if missing:
            raise InvalidInputError(f"on {missing[0]}: the source has {', '.join(source.column_names)}")
        self.kinds = None
        if self._is_upsert(schema, source):
            return _each_key_once(schema, source)
        target, places = self._candidates(schema, source)
        numbered = [self._numbered(schema, target, places), _numbered(source)]
        rows = Rows(dict(zip(self.aliases, numbered, strict=True)))
        picked = rows.select(self._matching_sql(joined=places is not None), "merge")
        _each_row_once(picked.column("t"))
        out, new = [], []
        for number, clause in enumerate(self._clauses):
            mine = picked.filter(pc.equal(picked.column("clause"), number))
            if mine.num_rows:
                out.append(self._rows_of(clause, schema, target, source, mine, rows))
                new += [out[-1]] if clause.of == NOT_MATCHED else []
        if not out:
            return pa.table({KIND_COLUMN: pa.array([], pa.string())})
        changed = pa.concat_tables(out, promote_options="permissive")
        if new:
            # Rows found by their key have other keys than those that are not there.
            by_key = self._columns_of_key(schema, source) is not None
            _each_key_once(schema, pa.concat_tables(new, promote_options="permissive") if by_key else changed)
        counted = pc.value_counts(changed.column(KIND_COLUMN).combine_chunks())
        self.kinds = dict(zip(*(counted.field(n).to_pylist() for n in ("values", "counts")), strict=True))
        return changed

    def _is_upsert(self, schema: TableSchema, source: pa.Table) -> bool:
        """Return True where no row of the table decides anything: whole rows by the key, changed or inserted."""
        wanted = [MergeClause(MATCHED, "update"), MergeClause(NOT_MATCHED, "insert")]
        by_key = not isinstance(self.on, str) and set(self.on) == set(schema.primary_keys)
        whole = set(source.column_names) == set(schema.field_names)
        return by_key and whole and len(self._clauses) == len(wanted) and all(c in wanted for c in self._clauses)

    def _candidates(self, schema: TableSchema, source: pa.Table) -> tuple[pa.Table, Int64s | None]:
        """Return the rows of the table that the source may match, with the columns that anything asks for: by the key those it
        has, else all; and where the key says all, which of them each row of the source matches, -1 for none.
        """
        needed = self._needed_columns(schema, source)
        by_key = self._columns_of_key(schema, source)
        if by_key is None or any(c.of == BY_SOURCE for c in self._clauses):
            scan = partial(scan_committed, self.table, columns=needed)
            return on_newest(self.table.metadata, lambda _: scan().to_arrow()), None
        columns, alone = by_key
        keys = WantedKeys(schema, source.select(columns).rename_columns(list(schema.primary_keys)))
        target = rows_of_keys(self.table, keys, needed, exact=False)
        return target, keys.places(target) if alone else None

    def _numbered(self, schema: TableSchema, target: pa.Table, places: Int64s | None) -> pa.Table:
        """Return rows of the table with their numbers; where places are known, row by row beside the source's, for conditions."""
        if places is None:
            return _numbered(target)
        texts = [c.condition for c in self._clauses if c.condition is not None]
        named = {n for text in texts for n in columns_named(text, target.column_names)}
        numbers = pa.array(places, mask=places < 0)
        columns = {n: target.column(n).take(numbers) for n in target.column_names if n in named}
        return pa.table({**columns, ROW: numbers})

    def _needed_columns(self, schema: TableSchema, source: pa.Table) -> list[str]:
        """Return the columns of the table that the condition and the clauses read, in its order."""
        needed = set(schema.primary_keys)
        texts = [self.on] if isinstance(self.on, str) else []
        if not isinstance(self.on, str):
            needed |= {*self.on}
        for clause in self._clauses:
            texts += [] if clause.condition is None else [clause.condition]
            texts += [e for e in (clause.columns or {}).values() if isinstance(e, str)]
            if clause.action == "delete":
                needed |= {*columns_of_deletes(schema)}
            elif clause.action == "update" and schema.table_options.merge_engine != "partial-update":
                # A row is written whole.
                needed |= {*schema.field_names} - {*(source.column_names if clause.columns is None else clause.columns)}
        for text in texts:
            needed |= columns_named(text, schema.field_names)
        return [n for n in schema.field_names if n in needed]

    def _columns_of_key(self, schema: TableSchema, source: pa.Table) -> tuple[list[str], bool] | None:
        """Return the source's columns that are compared with the primary key, in its order, and whether nothing else is; None where
        not all of it is.

        Names in a condition are in any case, as DuckDB takes them.
        """
        keys = schema.primary_keys
        if not isinstance(self.on, str):
            return (list(keys), set(keys) == set(self.on)) if set(keys) <= set(self.on) else None
        import sqlglot
        from sqlglot import exp

        try:
            tree = sqlglot.parse_one(self.on, dialect="duckdb")
        except sqlglot.ParseError as error:
            raise InvalidInputError(f"on {self.on!r}: {str(error).splitlines()[0]}") from error
        pairs: dict[str, str] = {}
        parts = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
        for part in parts:
            both = [part.left, part.right] if isinstance(part, exp.EQ) else []
            if both and all(isinstance(c, exp.Column) for c in both):
                sides = {c.text("table"): c.name.lower() for c in both}
                if set(sides) == set(self.aliases):
                    pairs[sides[self.aliases[0]]] = sides[self.aliases[1]]
        given = {n.lower(): n for n in source.column_names}
        columns = [given.get(pairs.get(k.lower(), "")) for k in keys]
        one_name_each = len(given) == source.num_columns and None not in columns
        return ([n for n in columns if n is not None], len(parts) == len(keys)) if one_name_each else None

    def _matching_sql(self, *, joined: bool) -> str:
        """Return the query of the numbers of rows of table and source, and of the clause that takes them.

        joined   the rows of both lie beside each other
        """
        target, source = map(quoted, self.aliases)
        on = (
            self.on
            if isinstance(self.on, str)
            else " AND ".join(f"{target}.{quoted(n)} = {source}.{quoted(n)}" for n in self.on)
        )
        t, s = f"{target}.{ROW}", f"{source}.{ROW}"
        sides = {
            MATCHED: f"{t} IS NOT NULL AND {s} IS NOT NULL",
            NOT_MATCHED: f"{t} IS NULL",
            BY_SOURCE: f"{s} IS NULL",
        }
        cases = " ".join(
            f"WHEN {sides[c.of]}{'' if c.condition is None else f' AND ({c.condition})'} THEN {n}"
            for n, c in enumerate(self._clauses)
        )
        join = "FULL" if any(c.of == BY_SOURCE for c in self._clauses) else "RIGHT"
        both = f"{target} POSITIONAL JOIN {source}" if joined else f"{target} {join} JOIN {source} ON {on}"
        query = f"SELECT {t} AS t, {s} AS s, CASE {cases} END AS clause FROM {both}"  # noqa: S608 - the caller's own
        return f"SELECT * FROM ({query}) WHERE clause IS NOT NULL{'' if joined else ' ORDER BY s, t'}"  # noqa: S608 - as above

    # -- rows of a clause --------------------------------------------------------------------------------------------

    def _rows_of(
        self, clause: MergeClause, schema: TableSchema, target: pa.Table, source: pa.Table, picked: pa.Table, rows: Rows
    ) -> pa.Table:
        """Return the rows of the batch that a clause makes of the picked ones; `rows` computes expressions."""
        mine = {
            name: None if rows is None else _taken(rows, picked.column(number))
            for name, rows, number in (
                (self.aliases[0], None if clause.of == NOT_MATCHED else target, "t"),
                (self.aliases[1], None if clause.of == BY_SOURCE else source, "s"),
            )
        }
        before, given = mine.values()
        if clause.action == "delete":
            assert before is not None
            return as_deletes(schema, before)
        values = self._values(clause, schema, mine, picked.num_rows, rows)
        if clause.action == "update":
            assert before is not None
            made = with_columns(schema, before, values)
        else:
            assert given is not None
            made = pa.table(values)
        return made.append_column(
            KIND_COLUMN, pa.repeat(pa.scalar("+U" if before is not None else "+I"), made.num_rows)
        )

    def _values(
        self, clause: MergeClause, schema: TableSchema, mine: Mapping[str, pa.Table | None], count: int, rows: Rows
    ) -> dict[str, pa.Array | pa.ChunkedArray]:
        given = mine[self.aliases[1]]
        if clause.columns is None:
            assert given is not None
            keys = schema.primary_keys if clause.action == "update" else ()
            unknown = [n for n in given.column_names if n not in schema.fields_by_name]
            if unknown:
                raise InvalidInputError(
                    f"the source has a column {unknown[0]!r} that the table does not have: name the columns of the clause"
                )
            return {
                n: as_column(given.column(n), schema.fields_by_name[n]) for n in given.column_names if n not in keys
            }
        tables = {name: part for name, part in mine.items() if part is not None}
        whole = " POSITIONAL JOIN ".join(map(quoted, tables))
        rows.put(tables)
        return assigned(clause.columns, schema.fields_by_name, rows, whole, count)
