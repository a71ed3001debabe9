"""S3-compatible stores behind the port `lakeidx.storage.base.ObjectStore`: client, options, errors, output.

Import `S3Store`, or open a store with `lakeidx.storage.open_store`.
Retries and conditional puts are decided here and nowhere else.
"""
