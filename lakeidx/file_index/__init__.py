"""File indexes of a data file: their options, building them beside the file, and evaluating predicates with them.

Import the names below; `container` holds the payloads of a file, `kinds` the index types, `registry` finds a type by its name.
Which files a scan skips is decided in `lakeidx.table.scan`; indexes of keys live in `lakeidx.key_index`.
"""

from lakeidx.file_index.evaluate import evaluate_container as evaluate_container
from lakeidx.file_index.options import IndexedColumn as IndexedColumn
from lakeidx.file_index.options import indexed_columns as indexed_columns
from lakeidx.file_index.options import validate_file_index_options as validate_file_index_options
from lakeidx.file_index.registry import file_index_names as file_index_names
from lakeidx.file_index.registry import register_file_index as register_file_index
from lakeidx.file_index.write import INDEX_SUFFIX as INDEX_SUFFIX
from lakeidx.file_index.write import DataFileIndexWriter as DataFileIndexWriter
from lakeidx.file_index.write import index_builder as index_builder
