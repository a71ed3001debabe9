"""Which errors of Arrow and of the disk become which of lakeidx."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeidx.data.parquet.damage import damage_of
from lakeidx.errors import CorruptFileError, InvalidInputError, UnavailableError


@pytest.mark.parametrize(
    ("raised", "becomes"),
    [
        (pa.ArrowInvalid("bad page"), CorruptFileError),
        (OSError("Couldn't deserialize thrift"), CorruptFileError),
        (OSError(5, "Input/output error"), UnavailableError),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), CorruptFileError),
        (InvalidInputError("ours"), InvalidInputError),
        (RuntimeError("a bug"), RuntimeError),
    ],
)
def test_errors_of_damage_of_a_disk_and_of_others(raised: Exception, becomes: type[Exception]) -> None:
    with pytest.raises(becomes), damage_of("f.parquet"):
        raise raised
