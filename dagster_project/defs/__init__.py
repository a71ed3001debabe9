"""Definitions of this project, as `dg` finds them: the folder of pipeline files, and each ``NAME/defs.yaml`` that is put here.

Nothing is imported from here; `dagster_project.definitions` loads all of it.
A table of your own does not belong here but into ``pipelines/``, or into the project that uses the package.
"""
