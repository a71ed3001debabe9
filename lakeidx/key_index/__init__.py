"""Key indexes: where each key of a batch lives now, by one of the types of the option ``index.type``.

Import `port` (what every type takes and gives) and `registry.make_key_index`; a type registers there and keeps to its own module.
Placing keys that live nowhere belongs to `lakeidx.bucket_assignment`; indexes of a data file's columns to `lakeidx.file_index`.
"""
