"""The file index family of a data file: what options ask for, building it beside the file, and asking it."""

from lakeidx.file_index.evaluate import evaluate_container as evaluate_container
from lakeidx.file_index.options import IndexedColumn as IndexedColumn
from lakeidx.file_index.options import indexed_columns as indexed_columns
from lakeidx.file_index.options import validate_file_index_options as validate_file_index_options
from lakeidx.file_index.registry import file_index_names as file_index_names
from lakeidx.file_index.registry import register_file_index as register_file_index
from lakeidx.file_index.write import INDEX_SUFFIX as INDEX_SUFFIX
from lakeidx.file_index.write import DataFileIndexWriter as DataFileIndexWriter
from lakeidx.file_index.write import index_builder as index_builder
