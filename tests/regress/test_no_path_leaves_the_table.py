"""Names in manifests, snapshots and schemas were joined to directories as they came: `../…` led to any file, expiry included."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakeidx.api.table import Table
from lakeidx.api.warehouse import Warehouse
from lakeidx.errors import CorruptFileError, InvalidInputError, LakeIdxError
from lakeidx.format.index_manifest import decode_index_manifest, encode_index_manifest
from lakeidx.format.manifest import decode_manifest, encode_manifest
from lakeidx.format.manifest_list import decode_manifest_list, encode_manifest_list
from lakeidx.format.paths import TablePaths
from lakeidx.key_index.hudi_table.timeline import open_hudi_table
from lakeidx.lookup.file_cache import private_cache
from lakeidx.lookup.listing import decode_listing
from lakeidx.pipeline_file.model import parse_pipeline
from lakeidx.pipeline_file.partitions import files_of_partitions, landing_files, list_landing, sort_files
from lakeidx.storage import LocalStore
from tests.kit.replaced_manifest import replace_manifest
from tests.kit.small_tables import filled_table, make_table

_BAD = ["../../outside", "/etc/passwd", "..", ".", "", "a/b", "a\0b"]


def _table(folder: Path) -> Table:
    made = filled_table(folder, [(1, k, "v") for k in range(5)])
    return Table.open(made.uri)


@pytest.mark.slow
@pytest.mark.parametrize("name", _BAD)
def test_names_in_manifests_are_names(tmp_path: Path, name: str) -> None:
    """Data files, their companions, index files and manifests."""
    table = _table(tmp_path)
    snapshot = table.snapshot
    assert snapshot is not None
    meta = table.metadata.data_manifests(snapshot)[0]
    entry = table.metadata.load_manifest(meta.file_name)[0]
    index = table.metadata.load_index_manifest(snapshot.index_manifest)[0]
    for file in (replace(entry.file, file_name=name), replace(entry.file, extra_files=(name,))):
        data = encode_manifest([replace(entry, file=file)])
        with pytest.raises(CorruptFileError, match="leads out of its directory"):
            decode_manifest(data, "m")
    for data, decode in (
        (encode_index_manifest([replace(index, file_name=name)]), decode_index_manifest),
        (encode_manifest_list([replace(meta, file_name=name)]), decode_manifest_list),
    ):
        with pytest.raises(CorruptFileError, match="leads out of its directory"):
            decode(data, "m")


@pytest.mark.parametrize("key", ["baseManifestList", "deltaManifestList", "indexManifest", "changelogManifestList"])
def test_names_in_snapshots_are_names(tmp_path: Path, key: str) -> None:
    """A snapshot that names a file elsewhere is damaged."""
    table = _table(tmp_path)
    path = Path(table.paths.snapshot_path(1))
    snapshot = json.loads(path.read_text())
    path.write_text(json.dumps({**snapshot, key: "../../../outside"}))
    with pytest.raises(CorruptFileError, match=key):
        Table.open(table.uri).scan().to_arrow()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("data-file.path-directory", "../../elsewhere"),
        ("partition.default-name", "../x"),
        ("data-file.prefix", "../data-"),
        ("changelog-file.prefix", "a/b-"),
    ],
)
def test_options_in_schemas_stay_below_the_table(tmp_path: Path, option: str, value: str) -> None:
    """At create, and for a schema file that somebody else wrote."""
    with pytest.raises(InvalidInputError, match=option):
        make_table(tmp_path / "new", options={option: value})
    table = _table(tmp_path)
    path = Path(table.paths.schema_path(0))
    schema = json.loads(path.read_text())
    schema["options"][option] = value
    path.write_text(json.dumps(schema))
    with pytest.raises(LakeIdxError, match=option):
        Table.open(table.uri)


def _with_external(table: Table, change: Callable[[Any], Any]) -> Table:
    snapshot = table.snapshot
    assert snapshot is not None
    meta = table.metadata.data_manifests(snapshot)[0]
    entries = table.metadata.load_manifest(meta.file_name)
    replace_manifest(table.metadata, meta.file_name, [change(e) for e in entries])
    return Table.open(table.uri)


def test_external_paths_lie_where_the_option_says(tmp_path: Path) -> None:
    """A whole path in a manifest is taken below `data-file.external-paths` only, and without `..`."""
    outside = tmp_path / "outside"
    outside.mkdir()
    allowed = {"data-file.external-paths": f"file://{outside}"}
    for number, (options, place, fine) in enumerate(
        [
            (allowed, f"{outside}/{{}}", True),
            (allowed, f"file:{outside}/{{}}", True),
            (allowed, f"{outside}/../outside/{{}}", False),
            (allowed, f"{outside}-too/{{}}", False),
            ({}, f"{outside}/{{}}", False),
        ]
    ):
        made = filled_table(tmp_path / str(number), [(1, 1, "v")], options={"bucket": "1", **options})
        table = Table.open(made.uri)

        def move(entry: Any, place: str = place, table: Table = table) -> Any:
            where = table.paths.data_file({"p": 1}, entry.bucket, entry.file.file_name)
            os.replace(where, outside / entry.file.file_name)
            return replace(entry, file=replace(entry.file, external_path=place.format(entry.file.file_name)))

        changed = _with_external(table, move)
        if fine:
            assert changed.scan().to_arrow().num_rows == 1
        else:
            with pytest.raises(CorruptFileError, match=r"data-file\.external-paths"):
                changed.scan().to_arrow()


@pytest.mark.parametrize("name", ["../x", "x/../../y", "/etc/passwd", "..", "", "a\0b"])
def test_names_that_people_and_listings_give_are_names(tmp_path: Path, name: str) -> None:
    """Branches, tags, consumers, tables, lookup files, the timeline of a Hudi table."""
    for branch in (TablePaths("/w/d.db/t", branch=name), TablePaths("/w/d.db/t", branch=f"b/{name}")):
        with pytest.raises(InvalidInputError, match="a branch name"):
            branch.snapshot_path(1)
    with pytest.raises(InvalidInputError, match="a tag name"):
        TablePaths("/w/d.db/t").tag_path(name)
    with pytest.raises(InvalidInputError, match="a consumer name"):
        TablePaths("/w/d.db/t").consumer_path(name)
    for table in (f"d.{name}", f"{name}.t"):
        with pytest.raises(InvalidInputError, match=r"write the table as database\.table"):
            Warehouse(str(tmp_path)).path(table)
    for path, sides in ((f"bucket-0/{name}", []), ("bucket-0/f", [name])):
        entry = {"data_file": "f", "path": path, "side_files": sides, "schema_id": 0, "processor": "value",
                 "store_type": "sort", "size": 1, "entries": 1, "checksum": 1}  # fmt: skip
        listing = {"version": 2, "files": [entry]}
        with pytest.raises(CorruptFileError, match="leads out of its directory"):
            decode_listing(json.dumps(listing).encode(), "listing.json")
    meta = tmp_path / ".hoodie"
    meta.mkdir()
    lines = ("hoodie.table.name=t", "hoodie.table.version=8", f"hoodie.timeline.path={name}", "")
    (meta / "hoodie.properties").write_text("\n".join(lines))
    with pytest.raises(CorruptFileError, match=r"hoodie\.timeline\.path: .* leads out of its directory"):
        open_hudi_table(LocalStore(str(tmp_path)), str(tmp_path))


def test_landing_files_do_not_lead_out(tmp_path: Path) -> None:
    """Links to other files, and partition keys that are paths, bring nothing in; links inside the folder do."""
    landing = tmp_path / "landing"
    landing.mkdir()
    secret = tmp_path / "secret.csv"
    secret.write_text("k\n1\n")
    (landing / "a.csv").write_text("k\n1\n")
    (landing / "b.csv").symlink_to(landing / "a.csv")
    (landing / "c.csv").symlink_to(secret)
    spec = {"table": "d.t", "warehouse": str(tmp_path / "wh"), "landing": {"path": str(landing), "pattern": "*.csv"},
            "fields": [{"name": "k", "type": "INT"}], "primaryKeys": ["k"]}  # fmt: skip
    config = parse_pipeline(yaml.safe_dump(spec), path="p.yaml", environment={})
    store = LocalStore(str(landing))
    for listed in (list_landing(store, config), list_landing(store, config, ["c.csv", "b.csv", "a.csv"])):
        assert [f.name for f in landing_files(listed, config)] == ["a.csv", "b.csv"]
        assert [f.name for f in sort_files(listed, config)[1]] == ["c.csv"]
    for key in ("c.csv", "../secret.csv", str(secret), "..", ""):
        with pytest.raises(LakeIdxError, match="has no landing file"):
            files_of_partitions(store, config, [key])


def test_walks_do_not_follow_links_to_directories(tmp_path: Path) -> None:
    """What cleaners look for to delete lies below the directory itself."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("x")
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "own").write_text("x")
    (tmp_path / "table" / "link").symlink_to(tmp_path / "elsewhere")
    assert [f.name for f in LocalStore(str(tmp_path)).walk(str(tmp_path / "table"))] == ["own"]


def test_caches_are_this_users_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mode 0700, also when the directory was there; a link that somebody put there first is refused."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = private_cache("lakeidx-x")
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o777)
    assert private_cache("lakeidx-x").stat().st_mode & 0o777 == 0o700
    made.rmdir()
    made.symlink_to(tmp_path)
    with pytest.raises(InvalidInputError, match="a link or another user's"):
        private_cache("lakeidx-x")
