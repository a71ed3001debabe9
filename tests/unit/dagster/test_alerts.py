"""A failed run is told to a callable, a webhook and by e-mail, and one that cannot be told hides none of the others."""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._utils.error import serializable_error_info_from_exc_info

from lakeidx.dagster.failures import failures_explained
from lakeidx.dagster.sensors import failed_runs
from lakeidx.dagster.sensors.failed_runs import Alert, build_failed_run_sensor, receivers_from, send_alert
from lakeidx.errors import CorruptFileError, InvalidInputError, UnavailableError
from lakeidx.pipeline_file.sections import AlertConfig
from lakeidx.testing.limits import HANGS_SECONDS

ALERT = Alert("r1", "d__t__batch", "d.t", ("ingest",), "corrupt_file", True, "Restore the file.", ("corrupt_file: x",))
told: list[Alert] = []


def tell(alert: Alert) -> None:
    told.append(alert)


class Hook(BaseHTTPRequestHandler):
    answers: tuple[int, ...] = ()
    bodies: list[Any]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies.append(body)
        self.send_response(self.answers[min(len(self.bodies), len(self.answers)) - 1])
        self.end_headers()

    def log_message(self, *words: Any) -> None:
        pass


class Mail(socketserver.StreamRequestHandler):
    lines: list[str]

    def handle(self) -> None:
        self.wfile.write(b"220 test\r\n")
        data = False
        while line := self.rfile.readline().decode().rstrip("\r\n"):
            word = line.split()[0].upper()
            if word == "DATA":
                self.wfile.write(b"354 go on\r\n")
                while (text := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                    self.lines.append(text)
                data = True
            self.wfile.write(b"221 bye\r\n" if word == "QUIT" else b"250 ok\r\n")
            if word == "QUIT":
                assert data
                return


@contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join(HANGS_SECONDS)


@contextmanager
def webhook(*answers: int) -> Iterator[tuple[str, list[Any]]]:
    bodies: list[Any] = []
    handler = type("Handler", (Hook,), {"answers": answers, "bodies": bodies})
    with serving(HTTPServer(("127.0.0.1", 0), handler)) as port:
        yield f"http://127.0.0.1:{port}/hook", bodies


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    told.clear()
    monkeypatch.setattr(failed_runs, "wait_fixed", lambda seconds: lambda state: 0)
    monkeypatch.setattr(failed_runs, "_TIMEOUT_SECONDS", HANGS_SECONDS)


def test_a_webhook_gets_a_text_and_the_fields_also_at_the_second_try() -> None:
    with webhook(503, 200) as (url, bodies):
        send_alert(ALERT, receivers_from({"LAKEIDX_ALERT_WEBHOOK": url}))
    assert len(bodies) == 2
    assert (bodies[1]["run_id"], bodies[1]["kind"], bodies[1]["urgent"]) == ("r1", "corrupt_file", True)
    assert bodies[1]["text"].splitlines() == [
        "lakeidx: d__t__batch failed (corrupt_file), table d.t",
        "corrupt_file: x",
        "Restore the file.",
        "run r1",
    ]


def test_e_mail_says_it_in_the_subject() -> None:
    lines: list[str] = []
    handler = type("Handler", (Mail,), {"lines": lines})
    with serving(socketserver.TCPServer(("127.0.0.1", 0), handler)) as port:
        settings = {"LAKEIDX_ALERT_EMAIL": "a@x.org, b@x.org", "LAKEIDX_ALERT_SMTP": f"smtp://127.0.0.1:{port}"}
        send_alert(ALERT, receivers_from(settings))
    assert "Subject: lakeidx: d__t__batch failed (corrupt_file), table d.t" in lines
    assert "To: a@x.org, b@x.org" in lines
    assert "Restore the file." in lines


def test_a_receiver_that_cannot_be_reached_is_an_error_without_its_secrets_after_the_others_were() -> None:
    with webhook(500) as (url, bodies):
        broken = receivers_from({"LAKEIDX_ALERT_WEBHOOK": f"{url}?token=secret"})
        with pytest.raises(UnavailableError) as caught:
            send_alert(ALERT, iter([*broken, tell]))
    assert (len(bodies), told) == (failed_runs.ATTEMPTS, [ALERT])
    assert "_post: HTTPError" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"LAKEIDX_ALERT_CALL": "nowhere.at.all:f"},
        {"LAKEIDX_ALERT_CALL": "json:no_such"},
        {"LAKEIDX_ALERT_WEBHOOK": "file:///etc/passwd"},
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="LAKEIDX_ALERT"):
        list(receivers_from(settings))


def test_a_callable_is_found_by_its_name() -> None:
    found: list[Any] = list(receivers_from({"LAKEIDX_ALERT_CALL": "json:dumps"}))
    assert found == [json.dumps]


@dg.op
def breaks() -> None:
    with failures_explained():
        raise CorruptFileError("the bytes are damaged")


@dg.op
def waits() -> None:
    with failures_explained():
        raise UnavailableError("503")


@dg.job
def damaged() -> None:
    breaks()


@dg.job
def away() -> None:
    waits()


def fail_a_run(job: dg.JobDefinition, tags: dict[str, str], tables: Any = None) -> dict[str, str]:
    """Tags of a run that failed, after the sensor has seen it; without `tables` it tells `tell`."""
    with dg.DagsterInstance.ephemeral() as instance:
        config = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        result = job.execute_in_process(config, instance=instance, raise_on_error=False, tags=tags)
        context = dg.build_run_status_sensor_context(
            "s", result.get_run_failure_event(), instance, result.dagster_run
        ).for_run_failure()
        build_failed_run_sensor([] if tables else [tell], tables=tables)(context)
        run = instance.get_run_by_id(result.run_id)
        assert run is not None
        return dict(run.tags)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "retried", "kinds"),
    [(damaged, "true", ["corrupt_file"]), (away, "false", ["unavailable"]), (away, "true", [])],
)
def test_a_failed_run_is_alerted_unless_it_is_retried(job: dg.JobDefinition, retried: str, kinds: list[str]) -> None:
    assert "lakeidx/what_to_do" in fail_a_run(job, {"lakeidx/table": "d.t", "dagster/will_retry": retried})
    assert [a.kind for a in told] == kinds
    assert all(a.errors and a.table == "d.t" for a in told)


def test_a_run_whose_process_could_not_load_the_project_says_so() -> None:
    """It was told to have been killed, and to be run again."""
    with dg.DagsterInstance.ephemeral() as instance:
        run = instance.create_run_for_job(damaged, tags={"lakeidx/table": "d.t"})
        try:
            try:
                raise KeyError("job d__t__batch is gone")
            except KeyError as error:
                raise RuntimeError("could not load") from error
        except RuntimeError:
            said = serializable_error_info_from_exc_info(sys.exc_info())
        instance.report_engine_event("Could not load job definition.", run, EngineEventData(error=said))
        failed = instance.report_run_failed(run)
        ended = instance.get_run_by_id(run.run_id)
        assert ended is not None
        context = dg.build_run_status_sensor_context("s", failed, instance, ended).for_run_failure()
        build_failed_run_sensor([tell])(context)
        tagged = instance.get_run_by_id(run.run_id)
    assert tagged is not None
    assert (tagged.tags["lakeidx/error_kind"], tagged.tags["lakeidx/alert"]) == ("not_started", "yes")
    (alert,) = told
    assert alert.errors == ("KeyError: 'job d__t__batch is gone'",)


class Broken(dg.ConfigurableResource[Any]):
    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        raise UnavailableError("no server answers")


def test_a_run_whose_resource_could_not_be_made_says_so() -> None:
    @dg.op
    def uses(broken: Broken) -> None: ...

    @dg.job(resource_defs={"broken": Broken()})
    def begins() -> None:
        uses()

    fail_a_run(begins, {})
    (alert,) = told
    assert alert.kind == "not_started"
    assert "no server answers" in alert.errors[0]
    assert "File " not in alert.errors[0]


@pytest.mark.slow
def test_a_table_has_alerts_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways of a pipeline file; a secret is looked up when it is sent, and one that is not set hides none of the others."""
    lines: list[str] = []
    mail = type("Handler", (Mail,), {"lines": lines})
    with serving(socketserver.TCPServer(("127.0.0.1", 0), mail)) as port, webhook(200) as (url, bodies):
        monkeypatch.setenv("LAKEIDX_SECRET_SLACK", url)
        given = [
            {"slack": "${LAKEIDX_SECRET_NONE}"},
            {"slack": "${LAKEIDX_SECRET_SLACK}"},
            {"webhook": url},
            {"email": "a@x.org", "smtp": f"smtp://127.0.0.1:{port}", "sender": "dagster@x.org"},
            {"call": f"{__name__}:tell"},
        ]
        alerts = {"d.t": [AlertConfig.model_validate(a) for a in given], "d.quiet": []}
        with pytest.raises(UnavailableError, match="variable LAKEIDX_SECRET_NONE is not set"):
            fail_a_run(damaged, {"lakeidx/table": "d.t"}, alerts.get)
        assert set(bodies[0]) == {"text"}
        assert bodies[1]["table"] == "d.t"
        assert {"From: dagster@x.org", "To: a@x.org"} <= set(lines)
        assert [a.table for a in told] == ["d.t"]
        assert "lakeidx/what_to_do" in fail_a_run(damaged, {"lakeidx/table": "d.quiet"}, alerts.get)
        # Runs of somebody else's tables, and of none, are left alone.
        for tags in ({"lakeidx/table": "d.other"}, {}):
            assert "lakeidx/what_to_do" not in fail_a_run(damaged, tags, alerts.get)
        assert (len(bodies), len(told)) == (2, 1)
