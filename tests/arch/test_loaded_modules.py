"""What a new process loads for one upsert: each of Spark's workers, and each call of the command line, pays for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MOST = 200
PROGRAM = """
import sys
import pyarrow as pa
import lakeidx

spec = {"fields": [{"name": "id", "type": "BIGINT"}, {"name": "name", "type": "STRING"}], "primaryKeys": ["id"]}
if sys.argv[1] == "create":
    lakeidx.Table.create(sys.argv[2], {**spec, "options": {"bucket": "-1"}})
else:
    lakeidx.Table.open(sys.argv[2]).upsert(pa.table({"id": [1], "name": ["Ada"]}))
print(*sorted(name for name in sys.modules if name.split(".")[0] == "lakeidx"))
"""


def test_an_upsert_loads_few_modules(tmp_path: Path) -> None:
    for verb in ("create", "upsert"):
        program = [sys.executable, "-c", PROGRAM, verb, str(tmp_path / "t")]
        loaded = subprocess.run(program, check=True, capture_output=True, text=True).stdout.split()
    assert len(loaded) <= MOST, loaded
