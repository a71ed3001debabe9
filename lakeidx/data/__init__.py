"""Rows of a bucket and the files they are in: write, read, sort, merge.

parquet_write   rows into data files, with what the manifest says of them      parquet_read   data files into tables
sort, merge     merge order of a batch; sorted runs into one stream            evolve, cast   columns of other schema versions
stats           column statistics                                              engines        what becomes of rows of one key
"""
