"""Sensors of runs that ended early: a failed one is tagged with the kind of error and what to do about it, and alerts are sent;
checks of what a failed or canceled one has not reached stay as they were.
"""

from __future__ import annotations

import json
import os
import smtplib
import ssl
import urllib.request
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any
from urllib.parse import unquote, urlsplit

import dagster as dg
from tenacity import Retrying, stop_after_attempt, wait_fixed

from lakeidx.dagster.failures import ALERT, ERROR_KIND, REACTIONS, WHAT_TO_DO
from lakeidx.dagster.last_verdicts import leave_verdicts
from lakeidx.errors import InvalidInputError, LakeIdxError, UnavailableError
from lakeidx.pipeline_file.sections import AlertConfig
from lakeidx.storage.landing_folders import secrets_filled

# Dagster's own mark on a run that failed and is about to be run again.
_WILL_RETRY = "dagster/will_retry"
_TIMEOUT_SECONDS = 10
ATTEMPTS = 3
_SMTP = "smtp://localhost:25"


def diagnose(failed_steps: Mapping[str, str | None], *, started: bool = True) -> str:
    """Return the kind of error that a run has failed with.

    failed_steps   step -> error kind, None where the step did not say; none failed when the process died
    started        whether its process could begin with the steps
    """
    if not failed_steps:
        return "killed" if started else "not_started"
    kinds = [kind for kind in failed_steps.values() if kind in REACTIONS]
    # The worst first: what no one may retry, then what someone must look at.
    return min(kinds, key=lambda k: (REACTIONS[k].retry, not REACTIONS[k].alert), default="unknown")


def _kinds_of_steps(context: dg.RunFailureSensorContext) -> dict[str, str | None]:
    """Return the error kind of every failed step of a run."""
    out: dict[str, str | None] = {}
    for event in context.get_step_failure_events():
        data = event.step_failure_data.user_failure_data
        value = data.metadata.get(ERROR_KIND) if data is not None else None
        out[str(event.step_key)] = str(value.value) if value is not None else None
    return out


def _errors_before_steps(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    """List what kept the process of a run from beginning its first step: code that does not load, a job that is
    gone, a variable of a resource that is not set.
    """
    if instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_START):
        return []
    kinds = {dg.DagsterEventType.ENGINE_EVENT, dg.DagsterEventType.RESOURCE_INIT_FAILURE}
    events = [e.dagster_event for e in instance.all_logs(run_id, of_type=kinds)]
    errors = [e.engine_event_data.error for e in events if e is not None]
    return [_last_cause(error) for error in errors if error is not None]


def _last_cause(error: Any) -> str:
    """Return what is wrong, without the way to it: the message of the error that all others were caused by."""
    while error.cause is not None:
        error = error.cause
    return str(error.message).partition("\n\nStack Trace:")[0].strip()


def _alert_of(
    context: dg.RunFailureSensorContext, kind: str, steps: Collection[str], errors: Sequence[str]
) -> Alert | None:
    """Return the alert for a failed run; None when Dagster retries it and nobody has to act.

    errors   what was said before the first step
    """
    run, reaction = context.dagster_run, REACTIONS[kind]
    if run.tags.get(_WILL_RETRY) == "true" and not reaction.alert:
        return None
    said = [event.step_failure_data.user_failure_data for event in context.get_step_failure_events()]
    return Alert(
        run_id=run.run_id,
        job=run.job_name,
        table=", ".join(_tables_of(run)),
        steps=tuple(steps),
        kind=kind,
        urgent=reaction.alert,
        advice=reaction.advice,
        errors=(*errors, *(str(data.description) for data in said if data is not None and data.description)),
    )


def _tables_of(run: dg.DagsterRun) -> tuple[str, ...]:
    """Return the tables that a run is about, as database.table: what its tag says, or the assets that were chosen."""
    said = run.tags.get("lakeidx/table")
    if said is not None:
        return (said,)
    keys = [key.path for key in run.asset_selection or ()]
    return tuple(sorted({".".join(path[:2]) for path in keys if len(path) > 1}))


def build_failed_run_sensor(
    alerts: Sequence[Receiver] | None = None,
    *,
    tables: Callable[[str], Sequence[AlertConfig] | None] | None = None,
    name: str = "lakeidx__failed_run_sensor",
    **options: Any,
) -> dg.SensorDefinition:
    """Build the sensor for failed runs; those to look at carry the tag ``lakeidx/alert``.

    alerts   functions that are called with an `Alert`; None = those that the environment names (LAKEIDX_ALERT_*)
    tables   who else is told about a table, ``database.table``, or None where its runs are left alone; with it those of no table
             are left alone, too
    """

    @dg.run_failure_sensor(
        name=name,
        description="Tags a failed run with the kind of error and what to do about it, and sends alerts.",
        **{"default_status": dg.DefaultSensorStatus.RUNNING, **options},
    )
    def failed_run_sensor(context: dg.RunFailureSensorContext) -> None:
        leave_verdicts(context.instance, context.dagster_run)
        told: list[Sequence[AlertConfig]] = [()]
        if tables is not None:
            told = [found for found in map(tables, _tables_of(context.dagster_run)) if found is not None]
        if not told:
            return
        kinds = _kinds_of_steps(context)
        errors = [] if kinds else _errors_before_steps(context.instance, context.dagster_run.run_id)
        kind, run_id = diagnose(kinds, started=not errors), context.dagster_run.run_id
        reaction = REACTIONS[kind]
        # To filter by in the UI.
        tags = {ERROR_KIND: kind, ALERT: "yes" if reaction.alert else "no", WHAT_TO_DO: reaction.advice}
        context.instance.add_run_tags(run_id, tags)
        steps = ", ".join(kinds) or "; ".join(errors) or "no step reported a reason"
        text = f"run {run_id} failed ({kind}, {steps}): {reaction.advice}"
        (context.log.error if reaction.alert else context.log.warning)(text)
        alert = _alert_of(context, kind, kinds, errors)
        if alert is not None:
            own = [partial(_tell, a) for a in dict.fromkeys(a for of_table in told for a in of_table)]
            send_alert(alert, chain(own, receivers_from() if alerts is None else alerts))

    return failed_run_sensor


def build_canceled_run_sensor(name: str = "lakeidx__canceled_run_sensor") -> dg.SensorDefinition:
    """Build the sensor that leaves the checks of what a canceled run has not reached as they were."""

    @dg.run_status_sensor(
        dg.DagsterRunStatus.CANCELED,
        name=name,
        description="Leaves the checks of what a canceled run has not reached as they were.",
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def canceled_run_sensor(context: dg.RunStatusSensorContext) -> None:
        leave_verdicts(context.instance, context.dagster_run)

    return canceled_run_sensor


@dataclass(frozen=True, slots=True)
class Alert:
    """Content of an alert about a failed run.

    kind      kind of error, a key of `lakeidx.dagster.failures.REACTIONS`
    urgent    someone must look, even if a retry helps
    advice    what to do
    errors    what the failed steps said
    """

    run_id: str
    job: str
    table: str
    steps: tuple[str, ...]
    kind: str
    urgent: bool
    advice: str
    errors: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """One line."""
        return f"lakeidx: {self.job} failed ({self.kind})" + (f", table {self.table}" if self.table else "")

    @property
    def text(self) -> str:
        """All of it, in lines."""
        return "\n".join([self.title, *self.errors, self.advice, f"run {self.run_id}"])


Receiver = Callable[[Alert], None]


def _tell(who: AlertConfig, alert: Alert) -> None:
    """Send to the receiver that a pipeline file names; InvalidInputError for a secret that is not set, or no function."""
    if who.call is not None:
        _callable(who.call)(alert)
    elif who.addresses:
        server = who.smtp or os.environ.get("LAKEIDX_ALERT_SMTP", _SMTP)
        _send_mail(secrets_filled(server), who.sender or who.addresses[0], list(who.addresses), alert)
    elif who.slack is not None:
        # It takes a text alone.
        _send({"text": alert.text}, secrets_filled(who.slack))
    else:
        _post(secrets_filled(who.webhook or ""), alert)


def receivers_from(environment: Mapping[str, str] = os.environ) -> Iterator[Receiver]:
    """Yield the receivers; InvalidInputError for settings that do not fit."""
    if call := environment.get("LAKEIDX_ALERT_CALL"):
        yield _callable(call, "LAKEIDX_ALERT_CALL=")
    if url := environment.get("LAKEIDX_ALERT_WEBHOOK"):
        if urlsplit(url).scheme not in ("http", "https"):
            raise InvalidInputError("LAKEIDX_ALERT_WEBHOOK is not an http or https URL")
        yield partial(_post, url)
    if addresses := environment.get("LAKEIDX_ALERT_EMAIL"):
        to = [a.strip() for a in addresses.split(",") if a.strip()]
        server = environment.get("LAKEIDX_ALERT_SMTP", _SMTP)
        yield partial(_send_mail, server, environment.get("LAKEIDX_ALERT_FROM", to[0]), to)


def send_alert(alert: Alert, receivers: Iterable[Receiver]) -> None:
    """Send to every receiver, with a few retries each; UnavailableError at the end when some could not be reached."""
    failed = []
    for receiver in receivers:
        try:
            Retrying(stop=stop_after_attempt(ATTEMPTS), wait=wait_fixed(1), reraise=True)(receiver, alert)
        except Exception as error:
            # Addresses may hold secrets; the kind of receiver and of error must do. The others still get theirs.
            name = getattr(receiver, "func", receiver)
            why = str(error) if isinstance(error, LakeIdxError) else type(error).__name__
            failed.append(f"{getattr(name, '__name__', 'receiver')}: {why}")
    if failed:
        raise UnavailableError(f"the alert for run {alert.run_id} was not delivered: {', '.join(failed)}")


def _post(url: str, alert: Alert) -> None:
    """Post an alert to a webhook, with all of its parts."""
    _send({"text": alert.text, **asdict(alert)}, url)


def _send(content: Mapping[str, Any], url: str) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise InvalidInputError("the URL of an alert does not begin with http:// or https://")
    body = json.dumps(content).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):  # noqa: S310
        pass


def _send_mail(server: str, sender: str, to: list[str], alert: Alert) -> None:
    """Send an alert as e-mail."""
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = alert.title, sender, ", ".join(to)
    message.set_content(alert.text)
    where = urlsplit(server)
    if where.scheme not in ("smtp", "smtps") or not where.hostname:
        raise InvalidInputError("LAKEIDX_ALERT_SMTP is not smtp://host:port or smtps://host:port")
    tls = ssl.create_default_context()
    if where.scheme == "smtps":
        connection: smtplib.SMTP = smtplib.SMTP_SSL(
            where.hostname, where.port or 465, timeout=_TIMEOUT_SECONDS, context=tls
        )
    else:
        connection = smtplib.SMTP(where.hostname, where.port or 25, timeout=_TIMEOUT_SECONDS)
    with connection:
        connection.ehlo()
        if where.scheme == "smtp" and connection.has_extn("starttls"):
            connection.starttls(context=tls)
        if where.username:
            connection.login(unquote(where.username), unquote(where.password or ""))
        connection.send_message(message)


def _callable(name: str, said: str = "call: ") -> Receiver:
    """Return the function that ``module:function`` names."""
    module, _, function = name.partition(":")
    try:
        found: Receiver = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(f"{said}{name} is not module:function: {error}") from error
    return found
