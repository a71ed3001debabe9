"""Receivers of alerts on failed runs: any callable, a webhook, e-mail. Read from the environment when a run has failed.

===========================  ================================================================================================
LAKEIDX_ALERT_CALL           ``module:function``, called with an `Alert`
LAKEIDX_ALERT_WEBHOOK        URL that gets a JSON object: ``text``, as chat services show it, and the fields of the alert
LAKEIDX_ALERT_EMAIL          addresses, with commas between them; the first is the sender, too, unless LAKEIDX_ALERT_FROM is set
LAKEIDX_ALERT_SMTP           ``smtp://user:password@host:587`` (smtps for TLS from the start; smtp turns it on when it is offered)
===========================  ================================================================================================
"""

from __future__ import annotations

import json
import os
import smtplib
import ssl
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from functools import partial
from importlib import import_module
from urllib.parse import unquote, urlsplit

from tenacity import Retrying, stop_after_attempt, wait_fixed

from lakeidx.errors import InvalidInputError, UnavailableError

_TIMEOUT_SECONDS = 10
ATTEMPTS = 3


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


def receivers_from(environment: Mapping[str, str] = os.environ) -> Iterator[Receiver]:
    """Yield the receivers; InvalidInputError for settings that do not fit."""
    if call := environment.get("LAKEIDX_ALERT_CALL"):
        yield _callable(call)
    if url := environment.get("LAKEIDX_ALERT_WEBHOOK"):
        if urlsplit(url).scheme not in ("http", "https"):
            raise InvalidInputError("LAKEIDX_ALERT_WEBHOOK is not an http or https URL")
        yield partial(_post, url)
    if addresses := environment.get("LAKEIDX_ALERT_EMAIL"):
        to = [a.strip() for a in addresses.split(",") if a.strip()]
        server = environment.get("LAKEIDX_ALERT_SMTP", "smtp://localhost:25")
        yield partial(_send_mail, server, environment.get("LAKEIDX_ALERT_FROM", to[0]), to)


def send_alert(alert: Alert, receivers: Iterator[Receiver]) -> None:
    """Send to every receiver, with a few retries each; UnavailableError at the end when some could not be reached."""
    failed = []
    for receiver in receivers:
        try:
            Retrying(stop=stop_after_attempt(ATTEMPTS), wait=wait_fixed(1), reraise=True)(receiver, alert)
        except Exception as error:
            # Addresses may hold secrets; the kind of receiver and of error must do. The others still get theirs.
            name = getattr(receiver, "func", receiver)
            failed.append(f"{getattr(name, '__name__', 'receiver')}: {type(error).__name__}")
    if failed:
        raise UnavailableError(f"the alert for run {alert.run_id} was not delivered: {', '.join(failed)}")


def _post(url: str, alert: Alert) -> None:
    """Post an alert to a webhook."""
    body = json.dumps({"text": alert.text, **asdict(alert)}).encode()
    # The scheme was checked when the setting was read.
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


def _callable(name: str) -> Receiver:
    """Return the function that ``module:function`` names."""
    module, _, function = name.partition(":")
    try:
        found: Receiver = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(f"LAKEIDX_ALERT_CALL={name} is not module:function: {error}") from error
    return found
