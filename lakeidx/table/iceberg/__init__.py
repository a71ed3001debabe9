"""Iceberg metadata beside a table, so that Iceberg readers find the data files of Paimon that stand for themselves.

Import `publish_iceberg` and `check_publishable` from `lakeidx.table.iceberg.publish`. `values` turns types and values into
Iceberg's, `files` reads and writes the files; neither knows what a commit did. `read` reads
metadata as its readers do.
"""
