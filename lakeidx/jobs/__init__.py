"""Jobs for spark-submit: one module per stage of a batch and per kind of table maintenance (`jobs/` has a script for each).

A module parses its arguments, runs one function of `lakeidx` on the engine that was requested, prints the report as JSON and
gives an exit code; `arguments` holds what several entries share. Nothing is imported from here
except by tests: other code calls `lakeidx` itself. The command line, Dagster and any logic of tables do not belong here.
"""
