"""A batch on its way into a table: its context, the artifacts that stages leave for one another, and one call for all of it.

Import `upsert` to run a whole batch, `context` and `artifacts` to run stages one by one; `stages` holds the four stages, the rest
is what they share. Stages are map and reduce functions over Arrow that run on any `lakeidx.tasks.runner.Runner`.
Reading landing files belongs to `lakeidx.landing`, looking keys up to `lakeidx.key_index`, upkeep of tables to `maintenance`.
"""
