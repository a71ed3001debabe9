"""Pipeline files: what is wrong is named with file and line, and the others still load."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.model import globs_overlap, load_pipelines, parse_pipeline
from lakeidx.pipeline_file.problems import PipelineFileError
from lakeidx.pipeline_file.sections import check_cron

GOOD = """\
table: d.t
warehouse: /lake
landing:
  path: /landing/t
  pattern: "*.csv"
fields:
  - {name: k, type: BIGINT}
  - {name: v, type: STRING}
primaryKeys: [k]
options:
  bucket: -1
"""
ROOT = Path(__file__).parents[3]


def problem(text: str, **environment: str) -> str:
    with pytest.raises(InvalidInputError) as caught:
        parse_pipeline(text, path="p.yaml", environment=environment)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "added", "says"),
    [
        (12, "sorts: yes\n", "unknown key 'sorts'"),
        (13, "schedules:\n  compaction: 61 * * * *\n", "'61' is no minute"),
        (13, "schedules:\n  expiry: hourly\n", "has 1 fields"),
        (13, "partitions:\n  key: '('\n", "not a regular expression"),
        (13, "partitions:\n  key: abc\n", "needs a group"),
        (13, "partitions:\n  key: ''\n", "needs a group"),
        (12, "partitions:\n  by: daily\n  key: (x)\n", "need 'start'"),
        (13, "partitions:\n  start: soon\n  by: files\n", "not an ISO date"),
        (13, "partitions:\n  start: ''\n  by: files\n", "not an ISO date"),
        (12, "owners: [somebody]\n", "owner 'somebody'"),
        (12, "warehouse: /other\n", "duplicate key 'warehouse'"),
        (13, "tags:\n  a: ${SECRET}\n", "${SECRET} is allowed in warehouse"),
        (13, "checks:\n  skew_ratio: 0.5\n", "skew_ratio"),
        (12, "\tx: 1\n", "not YAML"),
    ],
)
def test_a_bad_addition_is_named_with_its_line(line: int, added: str, says: str) -> None:
    found = problem(GOOD + added)
    assert found.startswith("p.yaml: ")
    assert says in found
    named = int(found.removeprefix("p.yaml: line ").split(":")[0])
    assert named == line


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("type: BIGINT", "type: BIGGER", 7, "BIGGER"),
        ("primaryKeys: [k]", "primaryKeys: [z]", 9, "z"),
        ("bucket: -1", "merge-engine: best", 11, "merge-engine"),
        ("bucket: -1", "index.type: guess", 11, "index.type"),
        ("bucket: -1", "index.type: hbase", 11, "index.type"),
        ("table: d.t", "table: t", 1, "database.table"),
        ("table: d.t", "table: d.t$branch_x", 1, "call the table otherwise than 't$branch_x'"),
        ("warehouse: /lake\n", "", 1, "'warehouse' is missing"),
        # An empty variable; the table would be in a folder of the root directory.
        ("warehouse: /lake\n", "warehouse: ' '\n", 2, "expected the path or URI of a folder, not ' '"),
        ("path: /landing/t", "path: ''", 4, "landing.path: expected the path or URI of a folder, not ''"),
        ("warehouse: /lake\n", "warehouse: /lake\nchanges: {path: ' '}\n", 3, "changes.path: expected the path"),
        ("warehouse: /lake\n", "warehouse: /lake\ndata_docs: ''\n", 3, "expected the path or URI of a folder, not ''"),
    ],
)
def test_a_bad_change_is_named_with_its_line(old: str, new: str, line: int, says: str) -> None:
    found = problem(GOOD.replace(old, new))
    assert f"line {line}:" in found
    assert says in found


def test_variables_come_from_the_environment() -> None:
    text = GOOD.replace("/lake", "${LAKE}").replace("/landing/t", "${LANDING:-/in}/t")
    allowed = {"LAKEIDX_PIPELINE_VARIABLES": "LANDING, LAKE"}
    config = parse_pipeline(text, path="p", environment={"LAKE": "s3://bucket", **allowed})
    assert config.warehouse == "s3://bucket"
    assert config.landing.path == "/in/t"
    assert "line 2: the environment variable LAKE is not set" in problem(text, **allowed)


def test_all_problems_come_at_once() -> None:
    """By line, each once: broken types, unknown keys with the nearest known one, values out of range."""
    text = GOOD.replace("BIGINT", "BIGGER").replace("pattern", "patern") + "chekcs: {}\nretries:\n  max_retries: -1\n"
    with pytest.raises(PipelineFileError) as caught:
        parse_pipeline(text, path="p.yaml", environment={})
    assert [p.partition(":")[0] for p in caught.value.problems] == ["line 5", "line 7", "line 12", "line 14"]
    assert "unknown key 'landing.patern'; did you mean 'pattern' or 'path'?" in caught.value.problems[0]
    assert "did you mean 'checks' or 'changes'?" in caught.value.problems[2]
    assert str(caught.value) == "p.yaml: " + "; ".join(caught.value.problems)


@pytest.mark.slow
def test_aliases_cannot_make_a_file_endless() -> None:
    """A small file of aliases of aliases is one clear line."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "more than 100000 values" in problem("\n".join(lines))


def test_a_bad_file_does_not_keep_the_others_from_loading(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD.replace("d.t", "d.u"))
    (tmp_path / "c.yaml").write_text(GOOD.replace("d.t", "d.w").replace("/landing/t", "/landing/w"))
    (tmp_path / "d.yaml").write_text(GOOD.replace("/landing/t", "/landing/x"))
    (tmp_path / "e.yaml").write_bytes(b"\xff\xfe")
    good, bad = load_pipelines(tmp_path, environment={})
    assert [f.name for f in good] == ["a.yaml", "c.yaml"]
    assert "b.yaml: line 5: files of '*.csv' can be landing files of d.t (a.yaml" in str(bad[tmp_path / "b.yaml"])
    assert "d.yaml: line 1: a.yaml describes the table d.t already" in str(bad[tmp_path / "d.yaml"])
    assert "e.yaml: line 1: the file cannot be read" in str(bad[tmp_path / "e.yaml"])


def test_the_pipelines_of_the_project_load() -> None:
    good, bad = load_pipelines(ROOT / "pipelines", environment={})
    assert bad == {}
    assert {"flights.yaml", "weather.yaml"} <= {f.name for f in good}


@pytest.mark.parametrize("text", ["* * * * *", "*/5 0-6,22 1 jan-mar mon-fri", "@daily", "0 0 31 12 7", "0 0 * * sun"])
def test_cron_lines_that_are_fine(text: str) -> None:
    check_cron(text)


@pytest.mark.parametrize(
    "text", ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "*/0 * * * *", "5-1 * * * *",
             "* * * foo *", "a b c d e", "@often", "* * * * * *"]
)  # fmt: skip
def test_cron_lines_that_are_not(text: str) -> None:
    with pytest.raises(ValueError):
        check_cron(text)


@pytest.mark.parametrize(
    ("left", "right", "overlap"),
    [
        ("*", "a", True),
        ("a*", "*b", True),
        ("*.csv", "*.parquet", False),
        ("x-*.csv", "y-*.csv", False),
        ("a?c", "abc", True),
        ("a?c", "abbc", False),
        ("[ab]*", "b1", True),
        ("2013-*-a", "2013-*-b", False),
        ("", "*", True),
    ],
)
def test_globs_that_share_a_name(left: str, right: str, overlap: bool) -> None:
    assert globs_overlap(left, right) is overlap
    assert globs_overlap(right, left) is overlap


def test_changes_of_a_database() -> None:
    """What a pipeline file says of changes reaches their reader; what makes no sense is named with its line."""
    keys = "  format: debezium\n  order: [source.lsn]\n"
    good = GOOD.replace("fields:", keys + "fields:", 1) + "  sequence.field: v\n"
    config = parse_pipeline(good + "merge_schema: widen\n", path="p.yaml")
    options = config.landing_options()
    assert (options.format, options.order, options.merge_schema) == ("debezium", ("source.lsn",), "widen")
    strict = parse_pipeline(good + "schema_changes: all\n", path="p.yaml")
    assert strict.landing_options().merge_schema == "refuse"
    assert "all drops the columns" in problem(good + "schema_changes: all\nmerge_schema: add\n")
    letters = "  op_column: __op\n  op_values: {c: +I, d: -D}\n  columns: [__op, k, v]\n"
    options = parse_pipeline(GOOD.replace("fields:", letters + "fields:", 1), path="p.yaml").landing_options()
    assert (options.op_column, options.op_values) == ("__op", (("c", "+I"), ("d", "-D")))
    assert options.columns == ("__op", "k", "v")
    assert "set format or op_column" in problem(GOOD.replace("fields:", "  order: [x]\nfields:", 1))
    both = "  format: ogg\n  op_column: x\n"
    assert "order names 1 places, and option sequence.field 0 columns" in problem(
        good.replace("  sequence.field: v\n", "")
    )
    assert "need a table with primaryKeys" in problem(
        GOOD.replace("primaryKeys: [k]\n", "").replace("fields:", "  format: ogg\nfields:", 1)
    )
    assert "leave op_column out" in problem(GOOD.replace("fields:", both + "fields:", 1))


def test_two_tables_do_not_write_their_changes_to_one_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        text = GOOD.replace("d.t", f"d.{name}").replace("/landing/t", f"/landing/{name}") + "changes:\n  path: /out\n"
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    good, bad = load_pipelines(tmp_path)
    assert [f.name for f in good] == ["a.yaml"]
    assert "gets the changes of d.a (a.yaml) already" in str(bad[tmp_path / "b.yaml"])


EVENTS = """landing:
  path: s3://lake/in
  events:
    url: https://sqs.eu-west-1.amazonaws.com/1/landing
"""


def with_events(name: str = "t", events: str = EVENTS) -> str:
    return GOOD.replace("d.t", f"d.{name}").replace('landing:\n  path: /landing/t\n  pattern: "*.csv"\n', events)


def test_an_event_queue_of_a_folder_on_s3(tmp_path: Path) -> None:
    events = parse_pipeline(with_events(), path="p", environment={}).landing.events
    assert events is not None
    assert (events.max_messages, events.list_hours) == (200, 24)
    variable = EVENTS.replace("https://sqs.eu-west-1.amazonaws.com/1/landing", "${LAKEIDX_LANDING_QUEUE}")
    found = parse_pipeline(
        with_events(events=variable), path="p", environment={"LAKEIDX_LANDING_QUEUE": "http://q:1/n"}
    )
    assert found.landing.events is not None
    assert found.landing.events.url == "http://q:1/n"
    assert "line 5: landing.events is for folders on S3; landing.path is /in" in problem(
        with_events(events=EVENTS.replace("s3://lake", ""))
    )
    for url in ("landing-queue", "https://sqs.eu-west-1.amazonaws.com", "https://key:secret@q/1", "arn:aws:sqs:eu:1:q"):
        text = with_events(events=EVENTS.replace("https://sqs.eu-west-1.amazonaws.com/1/landing", url))
        assert "line 6: landing.events.url is not a queue: write https://sqs.REGION" in problem(text)
        assert "secret" not in problem(text)
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(with_events(name, EVENTS.replace("/in", f"/{name}")), encoding="utf-8")
    good, bad = load_pipelines(tmp_path)
    assert [f.name for f in good] == ["a.yaml"]
    assert "is already the queue of d.a (a.yaml); give each table its own" in str(bad[tmp_path / "b.yaml"])


def test_an_asset_that_writes_the_landing_files() -> None:
    text = GOOD.replace("fields:", "  asset: team/export\nfields:", 1)
    daily = "partitions: {by: daily, start: 2026-01-01, key: '(.*)'}\n"
    for partitions in ("", daily):
        assert parse_pipeline(text + partitions, path="p", environment={}).landing.asset == "team/export"
    assert "line 6: landing.asset: String should match pattern" in problem(text.replace("team/", "team//") + daily)
