"""Parquet files at the level of the format: footer, column chunks, pages, schema, row groups, properties.

Import from the modules; callers are the readers and writers of data files in `lakeidx.data`.
Paimon's statistics and file metadata live in `lakeidx.data.stats` and `lakeidx.format.data_file`.
"""
