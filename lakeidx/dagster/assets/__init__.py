"""Assets and asset checks of one table, built from its pipeline file.

Import the builders (`build_*`) from the modules; each returns Dagster definitions.
Table logic does not belong here: it lives in `lakeidx`.
"""
