"""Paimon's data types: as values, as schema-JSON text, and as Arrow types.

Import the names below. What is made of columns, a schema, lives in `lakeidx.format.schema`.
"""

from lakeidx.types.arrow import column_specs as column_specs
from lakeidx.types.arrow import from_arrow as from_arrow
from lakeidx.types.arrow import is_list as is_list
from lakeidx.types.arrow import timestamp_unit as timestamp_unit
from lakeidx.types.arrow import to_arrow as to_arrow
from lakeidx.types.arrow import to_arrow_schema as to_arrow_schema
from lakeidx.types.model import BYTES_ROOTS as BYTES_ROOTS
from lakeidx.types.model import FIELD_KEYS as FIELD_KEYS
from lakeidx.types.model import INT_ROOTS as INT_ROOTS
from lakeidx.types.model import MAX_LENGTH as MAX_LENGTH
from lakeidx.types.model import NESTED_ROOTS as NESTED_ROOTS
from lakeidx.types.model import STRING_ROOTS as STRING_ROOTS
from lakeidx.types.model import TIMESTAMP_ROOTS as TIMESTAMP_ROOTS
from lakeidx.types.model import DataType as DataType
from lakeidx.types.model import Field as Field
from lakeidx.types.model import Root as Root
from lakeidx.types.model import assign_field_ids as assign_field_ids
from lakeidx.types.model import walk_field_ids as walk_field_ids
from lakeidx.types.text import format_field as format_field
from lakeidx.types.text import format_type as format_type
from lakeidx.types.text import parse_type as parse_type
