"""SQL over the tables of a warehouse: `lakeidx.Warehouse.sql`, ``lakeidx sql``, and the verbs of ``lakeidx.spark.sql``.

sqlglot reads a statement in Spark's dialect, DuckDB computes queries over Arrow scans, and verbs are the calls of `lakeidx.Table`.
What is in a statement and not understood is refused by line and column: nothing runs as something else.
"""
