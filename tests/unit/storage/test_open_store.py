from __future__ import annotations

import subprocess
import sys

import pytest

from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.storage import LocalStore, ObjectStore, join, name_of, open_store, parent_of
from lakeidx.storage.remote.store import RemoteStore


def test_the_scheme_chooses_the_store() -> None:
    for uri in ("/lake", "lake", "file:///lake", "C:/x"):
        assert isinstance(open_store(uri), LocalStore)
    for uri in ("s3://b/x", "s3a://b/x", "S3N://b/x", "gs://b/x", "az://c/x", "abfss://c@a.dfs.core.windows.net/x"):
        store = open_store(uri, {"anon": True})
        assert isinstance(store, RemoteStore)
        assert isinstance(store, ObjectStore)
    for uri in ("ftp://b/x", "hdfs://n/x", "memory://x"):
        with pytest.raises(UnsupportedError, match="use a local path, file:// or s3://"):
            open_store(uri)
    with pytest.raises(InvalidInputError):
        open_store("")
    with pytest.raises(InvalidInputError, match="unknown storage option 'no'"):
        open_store("s3://b/x", {"no": 1})


def test_paths_are_joined_and_cut() -> None:
    assert join("/a/", "b", "c") == "/a/b/c"
    assert join("s3://b", "c") == "s3://b/c"
    assert join("/", "a") == "/a"
    assert (name_of("/a/b/"), name_of("s3://b/c d")) == ("b", "c d")
    assert (parent_of("/a/b/"), parent_of("/a"), parent_of("s3://b/c")) == ("/a", "/", "s3://b")


@pytest.mark.slow
def test_a_local_table_needs_no_client() -> None:
    code = (
        "import sys; from lakeidx.storage import open_store; open_store('/x');"
        "print(any(m.startswith(('obstore', 'botocore', 'lakeidx.storage.remote')) for m in sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "False"
    )
