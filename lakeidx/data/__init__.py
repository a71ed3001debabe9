"""Rows of a bucket and the files they are in: write, read, sort, merge.

`write_data_file` makes data files, with what the manifest says of them; `read_data_file` reads them, and `cast` fits columns
of other schema versions. `merge` merges sorted runs by the rules of `engines`; `stats` has the statistics of columns.
"""
