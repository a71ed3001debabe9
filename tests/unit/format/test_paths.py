from __future__ import annotations

import pickle
from typing import Any

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.format.paths import TableLocation, TablePaths, check_table_name, split_table_name, split_table_uri
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.types import Field, parse_type

UUID = "85223684-070f-4b7b-a1ce-217d5b745222"
FIELDS = (Field(0, "dt", parse_type("DATE")), Field(1, "region", parse_type("STRING")))


@pytest.mark.parametrize("root", ["/lake/db.db/t", "s3://bucket/lake/my db.db/tä", "file:///lake/db.db/t"])
def test_metadata_files_have_the_paths_of_paimon(root: str) -> None:
    p = TablePaths(root)
    assert TablePaths(root + "/") == p
    assert p.schema_path(3) == f"{root}/schema/schema-3"
    assert p.snapshot_path(1) == f"{root}/snapshot/snapshot-1"
    assert p.latest == f"{root}/snapshot/LATEST"
    assert p.earliest == f"{root}/snapshot/EARLIEST"
    assert p.changelog_path(7) == f"{root}/changelog/changelog-7"
    assert p.changelog_latest == f"{root}/changelog/LATEST"
    assert p.changelog_earliest == f"{root}/changelog/EARLIEST"
    assert p.tag_path("v1 ü") == f"{root}/tag/tag-v1 ü"
    assert p.consumer_path("c") == f"{root}/consumer/consumer-c"
    assert p.manifest_path(f"manifest-{UUID}-0") == f"{root}/manifest/manifest-{UUID}-0"
    assert p.index_path("index-x") == f"{root}/index/index-x"
    assert p.statistics_path("stat-x") == f"{root}/statistics/stat-x"
    assert p.bucket_dir({}, 0) == f"{root}/bucket-0"
    assert p.bucket_dir({}, -2) == f"{root}/bucket-postpone"


def test_branches_share_manifests_and_data() -> None:
    p = TablePaths("/t", branch="b1")
    assert p.schema_path(0) == "/t/branch/branch-b1/schema/schema-0"
    assert p.snapshot_path(1) == "/t/branch/branch-b1/snapshot/snapshot-1"
    assert p.tag_path("x") == "/t/branch/branch-b1/tag/tag-x"
    assert p.consumer_path("x") == "/t/branch/branch-b1/consumer/consumer-x"
    assert p.changelog_path(1) == "/t/branch/branch-b1/changelog/changelog-1"
    assert p.manifest_path("m") == "/t/manifest/m"
    assert p.index_path("i") == "/t/index/i"
    assert p.bucket_dir({}, 1) == "/t/bucket-1"
    assert p.branch_dir == "/t/branch"


def test_data_files_are_below_their_partition() -> None:
    p = TablePaths("/t", partition_fields=FIELDS)
    assert p.bucket_dir({"dt": 19723, "region": "a/b"}, 2) == "/t/dt=19723/region=a%2Fb/bucket-2"
    assert p.partition_dir({"dt": None, "region": " "}) == "/t/dt=__DEFAULT_PARTITION__/region=__DEFAULT_PARTITION__"
    sql = TablePaths("/t", partition_fields=FIELDS, legacy_partition_names=False, default_partition_name="none")
    assert sql.partition_dir({"dt": 19723, "region": ""}) == "/t/dt=2024-01-01/region=none"


def test_data_directory_and_locations() -> None:
    p = TablePaths("/t", partition_fields=FIELDS, data_directory="data/x", index_in_data_dir=True)
    values = {"dt": 0, "region": "r"}
    assert p.bucket_dir(values, 0) == "/t/data/x/dt=0/region=r/bucket-0"
    assert p.index_file(values, 0, "index-1") == "/t/data/x/dt=0/region=r/bucket-0/index-1"
    assert p.index_file(values, 0, "index-1", external_path="s3://o/index-1") == "s3://o/index-1"
    assert TablePaths("/t").index_file({}, 0, "index-1") == "/t/index/index-1"
    assert p.data_file(values, 0, "d.parquet") == "/t/data/x/dt=0/region=r/bucket-0/d.parquet"
    assert p.data_file(values, 0, "d", external_path="s3://o/p/d") == "s3://o/p/d"
    assert p.extra_file(values, 0, "d.index") == "/t/data/x/dt=0/region=r/bucket-0/d.index"
    assert p.extra_file(values, 0, "d.index", external_path="s3://o/p/d") == "s3://o/p/d.index"


def test_from_a_schema() -> None:
    schema = new_schema(
        {
            "fields": [{"name": n, "type": "INT"} for n in ("k", "p", "v")],
            "primaryKeys": ["k", "p"],
            "partitionKeys": ["p"],
            "options": {
                "partition.legacy-name": "false",
                "partition.default-name": "D",
                "data-file.path-directory": "data",
                "index-file-in-data-file-dir": "true",
            },
        }
    )
    p = TablePaths.of("/t", schema)
    assert p.partition_fields == (schema.field("p"),)
    assert (p.legacy_partition_names, p.default_partition_name, p.data_directory, p.index_in_data_dir) == (
        False,
        "D",
        "data",
        True,
    )
    assert pickle.loads(pickle.dumps(p)) == p


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", "."])
def test_names_that_would_leave_their_directory(name: str) -> None:
    with pytest.raises(InvalidInputError):
        TablePaths("/t").tag_path(name)
    with pytest.raises(InvalidInputError):
        TablePaths("/t").consumer_path(name)


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("/lake/db.db/flights", TableLocation("/lake", "db", "flights")),
        ("s3://bucket/lake/my db.db/t ü/", TableLocation("s3://bucket/lake", "my db", "t ü")),
        ("s3://bucket/db.db/t", TableLocation("s3://bucket", "db", "t")),
        ("file:///lake/db.db/t", TableLocation("file:///lake", "db", "t")),
        ("/db.db/t", TableLocation("/", "db", "t")),
        ("db.db/t", TableLocation("", "db", "t")),
        ("/lake/t", TableLocation("/lake", None, "t")),
        ("lake/t", TableLocation("lake", None, "t")),
        ("t", TableLocation(".", None, "t")),
        ("/t", TableLocation("/", None, "t")),
        ("/lake/.db/t", TableLocation("/lake/.db", None, "t")),
        ("s3://bucket/t", TableLocation("s3://bucket", None, "t")),
    ],
)
def test_split_table_uri(uri: str, location: TableLocation) -> None:
    assert split_table_uri(uri) == location


@pytest.mark.parametrize("uri", ["", "/", "s3://", "s3:///", ".", "..", "/lake/.."])
def test_split_refuses_what_is_no_table(uri: str) -> None:
    with pytest.raises(InvalidInputError):
        split_table_uri(uri)


def test_names_are_split_at_the_first_dot() -> None:
    """As Java's Identifier does; such tables of Java are there to be opened."""
    for name, parts in {"d.t": ("d", "t"), "d.t.x": ("d", "t.x"), "d..t": ("d", ".t"), " d.t": (" d", "t")}.items():
        assert split_table_name(name) == parts


@pytest.mark.parametrize(
    "name", ["", " ", "d", "d.", ".t", "d. ", " .t", "d...", "d..", "d/e.t", "d.t\0", 5, None, b"d.t"]
)
def test_what_is_no_name_of_a_table(name: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"write the table as database\.table, not"):
        split_table_name(name)


@pytest.mark.parametrize("name", ["t$branch_x", "t$audit_log", "t$b$c", "t$", "$t"])
def test_names_that_java_gives_no_new_table(name: str) -> None:
    check_table_name("t")
    with pytest.raises(InvalidInputError, match="call the table otherwise"):
        check_table_name(name)
