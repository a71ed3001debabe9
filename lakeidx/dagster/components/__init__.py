"""Components for projects of `dg`: `PrimaryKeyTable`, `FeedTables`, `WarehouseTables`, `TableMaintenance`, and their
attributes.

Import them from `lakeidx.dagster`, whose name is in the registry entry point; each puts together what the factory makes.
The pipeline file's model does not belong here: it is in `lakeidx.pipeline_file`, for jobs that have no Dagster.
"""
