"""Footer entries that Hudi leaves in Parquet files.

Import the decoders and encoders; they do no I/O.
Reading Hudi tables lives in `lakeidx.key_index.hudi_table`.
"""
