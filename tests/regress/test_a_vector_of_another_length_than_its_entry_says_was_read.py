"""An index manifest entry that led to the vector of another data file was believed when it named no cardinality."""

from __future__ import annotations

import pytest

from lakeidx.errors import CorruptFileError
from lakeidx.format.deletion_vector import decode_vector, encode_deletion_vectors, vector_range
from lakeidx.format.index_manifest import DeletionVectorMeta


def test_the_length_of_a_vector_is_that_of_its_entry() -> None:
    data, (a, b) = encode_deletion_vectors({"a": [1, 5, 9], "b": range(0, 100, 3)})
    wrong = DeletionVectorMeta(data_file_name="a", offset=b.offset, length=a.length)
    offset, size = vector_range(b)
    with pytest.raises(CorruptFileError, match=f"vector of {b.length} bytes, the index manifest has {a.length}"):
        decode_vector(data[offset : offset + size], wrong, "index-1")
