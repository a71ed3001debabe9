"""Components as a dg project has them: scaffolded from files, run, listed; tables of others found; mistakes with their place."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from dagster.components.core.component_tree import ComponentTree
from dagster.components.core.package_entry import discover_package_objects
from dagster.components.testing import DefsFolderSandbox, create_defs_folder_sandbox

import lakeidx
from lakeidx.api.inference.infer import infer_table
from lakeidx.dagster import FeedTables, PrimaryKeyTable, TableMaintenance, WarehouseTables
from lakeidx.dagster.components.attributes import PrimaryKeyTableAttributes
from lakeidx.dagster.resources import resources_from_environment
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.tasks.lazy_runner import LazyRunner
from tests.dagster.pipelines import QUIET

pytestmark = pytest.mark.dagster

SPEC = {"fields": [{"name": "id", "type": "BIGINT"}], "primaryKeys": ["id"], "options": {"bucket": "-1"}}


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[DefsFolderSandbox]:
    monkeypatch.setenv("LAKEIDX_ENGINE", "local")
    with create_defs_folder_sandbox() as made:
        yield made


def land(folder: Path, name: str, ids: range, v: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = {"v": [v] * len(ids), "order_id": pa.array(ids, pa.int64()), "day": ["2026-01-01"] * len(ids)}
    pq.write_table(pa.table(rows), folder / name)


def scaffolded(sandbox: DefsFolderSandbox, **params: Any) -> tuple[Path, str]:
    path = sandbox.scaffold_component(PrimaryKeyTable, defs_path="orders", scaffold_params=params)
    return path, (path / "defs.yaml").read_text(encoding="utf-8")


def written(
    sandbox: DefsFolderSandbox, component: type[dg.Component], attributes: dict[str, Any], name: str = "written"
) -> Path:
    path = sandbox.defs_folder_path / name
    path.mkdir(exist_ok=True)
    content = {"type": f"lakeidx.dagster.{component.__name__}", "attributes": attributes}
    (path / "defs.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


@contextmanager
def found(sandbox: DefsFolderSandbox, path: Path, state: Path) -> Iterator[tuple[Any, dg.Definitions]]:
    """A component of found tables, and what it makes of the warehouse as it is now."""
    with sandbox.build_component_tree() as tree:
        component: Any = tree.load_component(path)
        component.write_state_to_path(state)
        yield component, component.build_defs_from_state(tree.load_context, state)


def test_a_scaffolded_table_runs(sandbox: DefsFolderSandbox, tmp_path: Path) -> None:
    land(tmp_path / "landing", "a.parquet", range(4000), "first")
    land(tmp_path / "landing", "b.parquet", range(3000, 6000), "second")
    path, text = scaffolded(sandbox, **{"from": f"{tmp_path}/landing", "warehouse": f"{tmp_path}/wh"})
    assert "# primary key: no two rows of a file share order_id" in text
    assert "# index: lakeidx advise recommends index.type = " in text
    with sandbox.load_component_and_build_defs(path) as (component, defs):
        assert isinstance(component, PrimaryKeyTable)
        assert component.attributes is not None
        assert component.attributes.primary_keys == ("order_id",)
        assert [(c.name, c.type) for c in component.attributes.fields] == [
            ("v", "STRING"), ("order_id", "BIGINT"), ("day", "STRING"),
        ]  # fmt: skip
        node = defs.resolve_asset_graph().get(dg.AssetKey(["lake", "orders"]))
        assert node.metadata["dagster/code_references"].code_references[0].file_path == str(path / "defs.yaml")
        instance = dg.DagsterInstance.ephemeral()
        instance.add_dynamic_partitions("lake__orders__files", ["a.parquet", "b.parquet"])
        tags = {"dagster/asset_partition_range_start": "a.parquet", "dagster/asset_partition_range_end": "b.parquet"}
        job = defs.resolve_job_def("lake__orders__batch")
        assert job.execute_in_process(instance=instance, tags=tags, run_config=QUIET).success
    rows = lakeidx.Table.open(f"{tmp_path}/wh/lake.db/orders").scan().to_arrow().to_pylist()
    assert {r["order_id"]: r["v"] for r in rows} == {i: "first" if i < 3000 else "second" for i in range(6000)}


def test_a_template_is_written_without_files(sandbox: DefsFolderSandbox) -> None:
    path, text = scaffolded(sandbox, table="shop.orders")
    assert text.startswith("# a template: give --from FOLDER")
    with sandbox.load_component_and_build_defs(path) as (component, _):
        assert isinstance(component, PrimaryKeyTable)
        assert component.attributes is not None
        assert component.attributes.table == "shop.orders"


def test_columns_and_keys_of_texts_are_inferred(tmp_path: Path) -> None:
    (tmp_path / "x-1.csv").write_text(
        "n,at,place\n1,2026-01-01 10:00:00,a\n1,2026-01-01 11:00:00,a\n", encoding="utf-8"
    )
    (tmp_path / "x-2.csv").write_text(
        "n,at,place\n1,2026-01-02 10:00:00,a\n2,2026-01-02 10:00:00,b\n", encoding="utf-8"
    )
    found = infer_table(str(tmp_path))
    assert found.attributes["landing"] == {"path": str(tmp_path), "pattern": "*.csv"}
    assert [tuple(f.values()) for f in found.attributes["fields"]] == [
        ("n", "BIGINT"), ("at", "TIMESTAMP(0)"), ("place", "STRING"),
    ]  # fmt: skip
    assert found.attributes["primaryKeys"] == ["n", "at"]
    given = infer_table(str(tmp_path), keys=["at", "n"], partition_by=["place"]).attributes
    assert (given["primaryKeys"], given["partitionKeys"]) == (["place", "at", "n"], ["place"])
    with pytest.raises(InvalidInputError, match="there is no column id; the files have n, at, place"):
        infer_table(str(tmp_path), keys=["id"])
    (tmp_path / "x-3.csv").write_text("n,at,place\n" + "1,2026-01-01 10:00:00,a\n" * 2, encoding="utf-8")
    with pytest.raises(InvalidInputError, match="name the primary key with --key"):
        infer_table(str(tmp_path))
    (tmp_path / "x-3.csv").write_text("n,at\n1,2,3\n", encoding="utf-8")
    assert infer_table(str(tmp_path)).unread == (f"{tmp_path}/x-3.csv line 2: 3 columns instead of 2",)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="no landing files"):
        infer_table(str(tmp_path / "empty"))


def test_other_formats_are_inferred(tmp_path: Path) -> None:
    for folder in ("json", "zipped", "arrow"):
        (tmp_path / folder).mkdir()
    (tmp_path / "json/a.jsonl").write_text('{"id": 1, "m": {"a": 1.5}}\n{"id": 2, "m": null}\n', encoding="utf-8")
    (tmp_path / "json/b.jsonl").write_text('{"id": 3, "more": true}\n', encoding="utf-8")
    with gzip.open(tmp_path / "zipped/a.csv.gz", "wt") as file:
        file.write("id,v\n1,a\n2,b\n")
    rows = pa.table({"v": ["a", "a"], "id": [1, 2]})
    with pa.ipc.new_stream(str(tmp_path / "arrow/a.arrow"), rows.schema) as out:
        out.write_table(rows)
    with pa.ipc.new_file(str(tmp_path / "arrow/b.arrow"), rows.schema) as out:
        out.write_table(rows)
    found = {f: infer_table(str(tmp_path / f)).attributes for f in ("json", "zipped", "arrow")}
    assert [a["landing"]["pattern"] for a in found.values()] == ["*.jsonl", "*.csv.gz", "*.arrow"]
    assert [a["primaryKeys"] for a in found.values()] == [["id"]] * 3
    assert [f["name"] for f in found["json"]["fields"]] == ["id", "m", "more"]
    assert found["json"]["landing"]["missing_columns"] == "null"
    assert found["json"]["fields"][1]["type"]["fields"][0]["type"] == "DOUBLE"


GOOD: dict[str, Any] = {
    "table": "d.t",
    "warehouse": "{{ env.LAKEIDX_TEST_LAKE }}/${LAKEIDX_WAREHOUSE_NAME:-wh}",
    "landing": {"path": "/landing"},
    "fields": [{"name": "id", "type": "BIGINT"}],
    "primaryKeys": ["id"],
    "options": {"bucket": -1},
}
MISTAKES: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown_key": ({"table": "d.u", "landing": {"path": "/u", "patern": "*"}}, "patern", "did you mean 'pattern'"),
    "no_column": ({"table": "d.n", "landing": {"path": "/n"}, "primaryKeys": ["gone"]}, "primaryKeys", "'gone'"),
    "not_a_list": ({"table": "d.l", "landing": {"path": "/l"}, "fields": 7}, "fields", "fields: "),
    "no_such_zone": (
        {"table": "d.z", "landing": {"path": "/z"}, "schedules": {"timezone": "Europe/Berln"}},
        "timezone",
        "did you mean 'Europe/Berlin'",
    ),
    "no_alert": (
        {"table": "d.a", "landing": {"path": "/a"}, "alerts": [{"smtp": "x"}]},
        "smtp",
        "an alert is one of",
    ),
    "the_same_table": ({"landing": {"path": "/s"}}, "table", "a_good_one/defs.yaml describes the table d.t already"),
    "the_same_name": (
        {"warehouse": "/other", "landing": {"path": "/s2"}},
        "table",
        "a_good_one/defs.yaml describes a table d.t in another warehouse",
    ),
    "the_same_files": ({"table": "d.f"}, "landing", "files of '*' can be landing files of d.t"),
}


def test_a_mistake_keeps_the_other_tables_and_is_a_failed_check_with_file_line_and_column(
    sandbox: DefsFolderSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them ended the load of the whole project, on line 32 of a traceback."""
    monkeypatch.setenv("LAKEIDX_TEST_LAKE", "/lake")
    written(sandbox, PrimaryKeyTable, GOOD, "a_good_one")
    for name, (changes, _, _) in MISTAKES.items():
        written(sandbox, PrimaryKeyTable, {**GOOD, **changes}, name)
    written(sandbox, TableMaintenance, {"warehouse": "/lake/wh", "tabel": "d.x"}, "upkeep")
    with sandbox.build_all_defs() as defs:
        said = {s.name: s for s in defs.sensors or ()}
        assert {"d__t__landing_sensor", "lakeidx__failed_component_runs_sensor"} <= set(said)
        assert not [n for n in said if n.startswith("d__") and not n.startswith("d__t__")]
        dg.Definitions.validate_loadable(defs)
        described = {
            s.key.path[-1]: str(s.description) for s in defs.resolve_all_asset_specs() if s.key.path[0] == "lakeidx"
        }
    assert described.keys() == {*MISTAKES, "upkeep"}
    for name, description in described.items():
        first, _, rest = description.partition("\n")
        assert first.startswith("What is left out of the component ")
        assert first.endswith(f"defs/{name}/defs.yaml.")
        assert f"defs/{name}/defs.yaml: line " in rest
    for name, (_, key, what) in {**MISTAKES, "upkeep": ({}, "tabel", "did you mean 'table'?")}.items():
        sensor = said[f"lakeidx__components__defs__{name}_sensor"]
        with dg.build_sensor_context(instance=dg.DagsterInstance.ephemeral()) as context:
            result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        (event,) = result.asset_events
        assert isinstance(event, dg.AssetCheckEvaluation)
        assert not event.passed
        file = sandbox.defs_folder_path / name / "defs.yaml"
        lines = file.read_text(encoding="utf-8").splitlines()
        number = next(i for i, line in enumerate(lines, 1) if line.strip(" -").startswith(f"{key}:"))
        place = f"defs/{name}/defs.yaml: line {number}, column {len(lines[number - 1]) - len(lines[number - 1].lstrip()) + 1}: "
        found = [p for p in str(event.description).splitlines() if place in p and what in p]
        assert found, (place, event.description)


def test_templates_and_variables_are_filled_in(sandbox: DefsFolderSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEIDX_TEST_LAKE", "/lake")
    with sandbox.load_component_and_build_defs(written(sandbox, PrimaryKeyTable, GOOD)) as (component, _):
        assert isinstance(component, PrimaryKeyTable)
        assert component.attributes is not None
        assert component.attributes.warehouse == "/lake/wh"


def test_a_table_that_two_components_have_is_kept_by_one(sandbox: DefsFolderSandbox, tmp_path: Path) -> None:
    """Dagster said `Duplicate asset key` and loaded nothing."""
    warehouse = lakeidx.Warehouse(f"{tmp_path}/wh")
    for name in ("d.t", "d.b"):
        warehouse.create(name, SPEC)
    written(sandbox, PrimaryKeyTable, {**GOOD, "warehouse": warehouse.uri}, "own")
    path = written(sandbox, WarehouseTables, {"warehouse": warehouse.uri}, "all")
    with found(sandbox, path, tmp_path / "state.json") as (_, defs):
        assert defs.resolve_asset_graph().observable_asset_keys == {dg.AssetKey(["d", "b"])}
        (check,) = defs.asset_checks or ()
    said = check.op.compute_fn.decorated_fn()  # type: ignore[union-attr]
    assert "defs/own/defs.yaml already" in said.description


def test_tables_of_a_warehouse_are_external_assets(sandbox: DefsFolderSandbox, tmp_path: Path) -> None:
    warehouse = lakeidx.Warehouse(f"{tmp_path}/wh")
    for name in ("d.a", "d.b", "d.tmp_c"):
        warehouse.create(name, SPEC).upsert([{"id": 1}])
    attributes = {"warehouse": warehouse.uri, "exclude": ["*.tmp_*"], "upkeep": True}
    path = written(sandbox, WarehouseTables, attributes)
    state = tmp_path / "state.json"
    with sandbox.load_component_and_build_defs(path) as (component, before):
        assert isinstance(component, WarehouseTables)
        assert not before.resolve_asset_graph().get_all_asset_keys()
    with found(sandbox, path, state) as (_, defs):
        pass
    a, b = dg.AssetKey(["d", "a"]), dg.AssetKey(["d", "b"])
    graph = defs.resolve_asset_graph()
    assert graph.observable_asset_keys == {a, b}
    assert {k.path[-1] for k in graph.materializable_asset_keys} == {"compaction", "snapshot_expiry", "verification"}
    instance = dg.DagsterInstance.ephemeral()
    (sensor,) = [s for s in defs.sensors or () if s.name.endswith("tables_sensor")]
    resources = {n: r for n, r in (defs.resources or {}).items() if n in sensor.required_resource_keys}

    def tick(cursor: str | None) -> dg.SensorResult:
        with dg.build_sensor_context(instance=instance, resources=resources, cursor=cursor) as context:
            result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        return result

    first = tick(None)
    assert {e.asset_key for e in first.asset_events} == {a, b}
    warehouse.table("d.b").upsert([{"id": 2}])
    (seen,) = tick(first.cursor).asset_events
    assert isinstance(seen, dg.AssetObservation)
    snapshot = warehouse.table("d.b").snapshot
    assert snapshot is not None
    assert (seen.asset_key, seen.tags) == (b, {"dagster/data_version": snapshot.identity})
    assert seen.metadata["dagster/row_count"].value == 2
    job = defs.resolve_job_def("d__b__verification_job")
    verified = job.execute_in_process(instance=instance, run_config=QUIET)
    assert verified.success
    assert {e.check_name for e in verified.get_asset_check_evaluations() if not e.passed} == set()


def test_the_upkeep_of_one_table(sandbox: DefsFolderSandbox, tmp_path: Path) -> None:
    warehouse = lakeidx.Warehouse(f"{tmp_path}/wh")
    table = warehouse.create("d.a", SPEC)
    for i in range(3):
        table.upsert([{"id": i}])
    attributes = {"warehouse": warehouse.uri, "table": "d.a", "schedules": {"compaction": "0 4 * * *"}}
    path = written(sandbox, TableMaintenance, attributes)
    with found(sandbox, path, tmp_path / "state.json") as (_, defs):
        pass
    assert defs.get_schedule_def("d__a__compaction_schedule").cron_schedule == "0 4 * * *"
    job = defs.resolve_job_def("d__a__compaction_job")
    full = {**QUIET, "ops": {"d__a__compaction": {"config": {"full": True}}}}
    assert job.execute_in_process(run_config=full).success
    assert table.snapshot is not None
    assert table.snapshot.commit_kind.value == "COMPACT"
    observed = dg.materialize(
        [*(a for a in defs.assets or () if isinstance(a, dg.AssetsDefinition) and a.is_observable)],
        resources=defs.resources,
        run_config=QUIET,
    )
    assert observed.success


def test_the_upkeep_of_a_table_that_an_asset_of_the_project_writes(sandbox: DefsFolderSandbox, tmp_path: Path) -> None:
    """The table would be two assets of one key, and the whole project would not load."""
    warehouse = lakeidx.Warehouse(f"{tmp_path}/wh")
    for i in range(3):
        (warehouse.create("d.a", SPEC) if i == 0 else warehouse.table("d.a")).upsert([{"id": i}])
    path = written(sandbox, TableMaintenance, {"warehouse": warehouse.uri, "table": "d.a", "external": False})

    @dg.asset(key=["d", "a"])
    def a() -> None: ...

    with found(sandbox, path, tmp_path / "state.json") as (_, made):
        defs = dg.Definitions.merge(made, dg.Definitions([a]))
    assert {k.to_user_string() for k in defs.resolve_asset_graph().get(dg.AssetKey(["d", "a"])).child_keys} == {
        "d/a/compaction", "d/a/snapshot_expiry", "d/a/verification",
    }  # fmt: skip
    assert not [s.name for s in defs.sensors or () if "tables" in s.name]
    full = {**QUIET, "ops": {"d__a__compaction": {"config": {"full": True}}}}
    assert defs.resolve_job_def("d__a__compaction_job").execute_in_process(run_config=full).success
    assert warehouse.table("d.a").scan().to_arrow().num_rows == 3


def test_components_share_resources_or_leave_them_to_the_project(tmp_path: Path) -> None:
    def config(name: str) -> PrimaryKeyTableAttributes:
        fields = [{"name": "id", "type": "BIGINT"}]
        landing = {"path": f"{tmp_path}/{name}"}
        return PrimaryKeyTableAttributes.model_validate(
            {"table": f"d.{name}", "warehouse": f"{tmp_path}/wh", "landing": landing, "fields": fields}
        )

    context = ComponentTree.for_test().load_context
    both = dg.Definitions.merge(*(PrimaryKeyTable(config(n)).build_defs(context) for n in ("a", "b")))
    assert set(both.resources or {}) == {"lakeidx_store", "lakeidx_spark", "lakeidx_tables"}
    dg.Definitions.validate_loadable(both)
    team = config("c").model_copy(update={"resource_prefix": "team_"})
    third = dg.Definitions.merge(both, PrimaryKeyTable(team).build_defs(context))
    assert set(third.resources or {}) - set(both.resources or {}) == {"team_store", "team_spark", "team_tables"}
    dg.Definitions.validate_loadable(third)
    alone = PrimaryKeyTable(config("a").model_copy(update={"resources": "project"})).build_defs(context)
    assert not alone.resources
    dg.Definitions.validate_loadable(dg.Definitions.merge(alone, dg.Definitions(resources=both.resources)))


def test_resources_that_one_component_takes_from_the_project_are_those_of_all(sandbox: DefsFolderSandbox) -> None:
    """Those that the others brought were different resources of one name, and nothing of the project loaded."""
    fields = {"fields": [{"name": "id", "type": "BIGINT"}], "warehouse": "/lake/wh", "primaryKeys": ["id"]}
    for name, more in {"a": {}, "b": {"resources": "project"}, "c": {"resource_prefix": "team_"}}.items():
        landing = {"path": f"/lake/{name}", "pattern": "*.csv"}
        written(sandbox, PrimaryKeyTable, {**fields, "table": f"d.{name}", "landing": landing, **more}, name)
    with sandbox.build_all_defs() as defs:
        assert set(defs.resources or {}) == {"team_store", "team_spark", "team_tables"}
        own = {f"lakeidx_{n}": r for n, r in resources_from_environment({"AWS_REGION": "eu-1"}, prefix="").items()}
        dg.Definitions.validate_loadable(dg.Definitions.merge(defs, dg.Definitions(resources=own)))


@pytest.mark.parametrize(
    ("asked", "uri", "spark"),
    [
        ({}, "/lake/d.db/t", False),
        ({}, "s3://lake/d.db/t", True),
        ({"LAKEIDX_ENGINE": "spark"}, "/lake/d.db/t", True),
        ({"LAKEIDX_SPARK_MASTER": "local[2]"}, "/lake/d.db/t", True),
        ({"LAKEIDX_ENGINE": "local"}, "s3://lake/d.db/t", False),
    ],
)
def test_spark_starts_where_it_is_asked_for_or_the_table_is_far(asked: dict[str, str], uri: str, spark: bool) -> None:
    """The table of a first try in a local folder waited for a session that it does not need."""
    resource = resources_from_environment(asked)["lakeidx_spark"]
    assert isinstance(resource.runner(uri), LazyRunner) == spark


def test_dg_finds_the_components() -> None:
    found = {key.name for key in discover_package_objects(["lakeidx.dagster"])}
    assert found == {"FeedTables", "PrimaryKeyTable", "WarehouseTables", "TableMaintenance"}
    schema = PrimaryKeyTable.get_model_cls().model_json_schema()
    assert {"table", "warehouse", "landing", "fields", "primaryKeys", "options", "resources"} <= set(
        schema["properties"]
    )
    assert "number" in json.dumps(schema["properties"]["options"])


def test_a_feed_is_a_component(sandbox: DefsFolderSandbox, tmp_path: Path) -> None:
    path = sandbox.scaffold_component(FeedTables, defs_path="shop", scaffold_params={"warehouse": f"{tmp_path}/wh"})
    content = yaml.safe_load((path / "defs.yaml").read_text(encoding="utf-8"))
    content["attributes"] |= {
        "landing": {"path": f"{tmp_path}/landing", "pattern": "*.json", "format": "canal"},
        "including_tables": ["orders", "tags"],
        "alerts": [{"webhook": "https://alerts.test"}],
    }
    (path / "defs.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    (tmp_path / "landing").mkdir()
    message = {"database": "shop", "table": "orders", "type": "INSERT", "isDdl": False, "mysqlType": {"id": "int"},
               "data": [{"id": "1"}], "old": None}  # fmt: skip
    (tmp_path / "landing" / "1.json").write_text(f"{json.dumps(message)}\n", encoding="utf-8")
    written(sandbox, PrimaryKeyTable, {"table": "shop.tags"}, "broken")
    with sandbox.load_component_and_build_defs(path) as (component, defs):
        assert isinstance(component, FeedTables)
        assert component.claims("shop.orders")
        assert [a.webhook for a in component.attributes.alerts] == ["https://alerts.test"]
        instance = dg.DagsterInstance.ephemeral()
        instance.add_dynamic_partitions("shop__shop__files", ["1.json"])
        job = defs.resolve_job_def("shop__shop__batch")
        assert job.execute_in_process(instance=instance, partition_key="1.json", run_config=QUIET).success
        assert defs.resolve_job_def("shop__orders__compaction_job").execute_in_process(run_config=QUIET).success
    assert lakeidx.Warehouse(tmp_path / "wh").table("shop.orders").scan().to_arrow().num_rows == 1


def test_a_feed_with_mistakes_or_a_table_of_another_component_is_left_out(
    sandbox: DefsFolderSandbox, tmp_path: Path
) -> None:
    landing = {"path": f"{tmp_path}/l", "format": "canal"}
    feed = {"feed": "shop", "database": "shop", "warehouse": f"{tmp_path}/wh", "landing": landing}
    bad = written(sandbox, FeedTables, {**feed, "tabel_prefix": "x", "including_tables": "("}, "bad")
    table = {"table": "shop.orders", "warehouse": f"{tmp_path}/wh", "landing": {"path": f"{tmp_path}/o"},
             "fields": [{"name": "id", "type": "INT"}], "primaryKeys": ["id"]}  # fmt: skip
    written(sandbox, PrimaryKeyTable, table, "a_table")
    second = written(sandbox, FeedTables, {**feed, "including_tables": ["orders"]}, "second")
    for path, said in (
        (bad, "line 9, column 3: unknown key 'tabel_prefix'"),
        (second, "table shop.orders is described by"),
    ):
        with sandbox.load_component_and_build_defs(path) as (_, defs):
            assert not [job.name for job in defs.jobs or () if "shop__" in job.name]
            (sensor,) = (s for s in defs.sensors or () if path.name in s.name)
            with dg.build_sensor_context(instance=dg.DagsterInstance.ephemeral()) as context:
                result = sensor(context)
            assert isinstance(result, dg.SensorResult)
            (event,) = result.asset_events
            assert isinstance(event, dg.AssetCheckEvaluation)
            assert not event.passed
            assert said in str(event.description)


def test_the_resource_of_tables_gives_tables_made_or_there(tmp_path: Path) -> None:
    """A project's own assets may take it; batches open less."""
    from lakeidx import Table
    from lakeidx.dagster.resources import StoreResource, TableResource
    from tests.dagster.pipelines import Deployment

    config = Deployment(tmp_path).config
    tables = TableResource(store=StoreResource())
    made = tables.ensure(config)
    assert isinstance(made, Table)
    assert made.upsert([{"p": 1, "k": 1, "v": "a"}]).rows == 1
    there = tables.ensure(config)
    assert (type(there), there.scan().to_arrow().num_rows) == (Table, 1)
    assert tables.open(config).scan().to_arrow().num_rows == 1
