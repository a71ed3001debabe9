"""The repository as a project of Dagster: the tables of ``pipelines/``, and the flights that ``make run`` loads.

`definitions` is its code location, `defs` what `dg` finds and scaffolds, `flights` the main job and the demo.
Code that other projects need does not belong here: it is in `lakeidx.dagster`.
"""
