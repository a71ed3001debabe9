"""Where a store's credentials come from, each against a stand-in of who gives them, and how requests are sent."""

from __future__ import annotations

import json
import logging
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx import Table
from lakeidx.errors import InvalidInputError, UnavailableError
from lakeidx.storage import ObjectStore, open_store, range_file
from tests.kit.object_server import Act, ObjectServer, object_server

pytestmark = pytest.mark.slow
PATH = "s3://b/d/f"
SPEC = {"fields": [{"name": "k", "type": "INT"}], "primaryKeys": ["k"], "options": {"bucket": "1"}}


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "ENDPOINT_URL", "REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


class Issuer(BaseHTTPRequestHandler):
    """Gives temporary keys as an instance's metadata and a web identity's service do: each time others."""

    issued: list[str]
    life: timedelta

    def do_GET(self) -> None:
        if self.path.endswith("/security-credentials/"):
            self._say(b"the-role")
            return
        key = self._issue()
        found = {
            "AccessKeyId": key,
            "SecretAccessKey": "the-secret",
            "Token": f"token-of-{key}",
            "Expiration": self._end(),
        }
        self._say(json.dumps({"Code": "Success", "Type": "AWS-HMAC", **found}).encode())

    def do_PUT(self) -> None:
        self._say(b"a-session")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        asked = parse_qs(body or urlsplit(self.path).query)
        assert asked["Action"] == ["AssumeRoleWithWebIdentity"]
        assert asked["WebIdentityToken"] == ["of-the-pod"]
        key = self._issue()
        inner = f"<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>the-secret</SecretAccessKey>"
        inner += f"<SessionToken>token-of-{key}</SessionToken>"
        self._say(
            f"<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>{inner}"
            f"<Expiration>{self._end()}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
            "</AssumeRoleWithWebIdentityResponse>".encode()
        )

    def _issue(self) -> str:
        self.issued.append(f"key{len(self.issued)}")
        return self.issued[-1]

    def _end(self) -> str:
        return (datetime.now(UTC) + self.life).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _say(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Silent."""


def certificate(folder: Path) -> ssl.SSLContext:
    """Make an authority and a certificate of it for this machine."""
    name = ("-subj", "/CN=of tests", "-days", "1", "-nodes", "-newkey", "rsa:2048")
    made = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True, "cwd": folder}
    subprocess.run(["openssl", "req", "-x509", *name, "-keyout", "ca.key", "-out", "ca.pem"], **made)  # type: ignore[call-overload]
    subprocess.run(["openssl", "req", *name, "-keyout", "own.key", "-out", "own.csr"], **made)  # type: ignore[call-overload]
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    sign = ["openssl", "x509", "-req", "-in", "own.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
    subprocess.run([*sign, "-extfile", "names", "-days", "1", "-out", "own.pem"], **made)  # type: ignore[call-overload]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "own.pem", folder / "own.key")
    return context


@contextmanager
def issuing(tls: ssl.SSLContext | None) -> Iterator[tuple[str, type[Issuer]]]:
    """Run an issuer."""
    handler = type("OneIssuer", (Issuer,), {"issued": [], "life": timedelta(hours=1)})
    listener = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        listener.socket = tls.wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.server_address[1]}", handler
    listener.shutdown()
    thread.join()
    listener.server_close()


@pytest.fixture(params=["web identity", "instance"])
def role(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[dict[str, Any], type[Issuer]]]:
    """Options, and who gives the keys: a service of web identities, which is asked over TLS only, or an instance's metadata."""
    if request.param == "instance":
        with issuing(None) as (url, issuer):
            yield {"metadata_endpoint": url}, issuer
        return
    (tmp_path / "token").write_text("of-the-pod")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/lake")
    with issuing(certificate(tmp_path)) as (url, issuer):
        yield {"sts_endpoint": url, "verify": str(tmp_path / "ca.pem")}, issuer


def signed_by(server: ObjectServer) -> list[tuple[str, str | None]]:
    """Key and token of the requests from here on."""
    found: list[tuple[str, str | None]] = []

    def hear(address: str, headers: Mapping[str, str]) -> None:
        key = headers["authorization"].partition("Credential=")[2].partition("/")[0]
        found.append((key, headers.get("x-amz-security-token")))

    server.hear = hear
    return found


def test_a_role_s_keys_are_taken_and_renewed_in_a_long_run(
    server: ObjectServer, role: tuple[dict[str, Any], type[Issuer]]
) -> None:
    options = {"endpoint_url": server.url, "region": "eu-north-1", **role[0]}
    seen = signed_by(server)
    store = open_store(PATH, options)
    for _ in range(3):
        store.put(PATH, b"1")
    assert {key for key, _ in seen} == {"key0"}, "of keys that hold for an hour, one is enough"
    # Keys about to end: others before every request.
    role[1].life = timedelta(seconds=30)
    later = open_store(PATH, {**options, "read_timeout": 61})
    seen.clear()
    table = Table.create("s3://b/d.db/t", SPEC, {**options, "read_timeout": 61})
    for key in range(3):
        table.upsert(pa.table({"k": pa.array([key], pa.int32())}))
        time.sleep(0.2)
    assert later.get(PATH) == b"1"
    assert len({key for key, _ in seen}) > 3
    assert all(token == f"token-of-{key}" for key, token in seen)
    assert table.scan().to_arrow().num_rows == 3


def for_some(left: Iterator[int], number: int, kind: str, key: str) -> Act:
    """Answer as many requests as there are left, and refuse the rest."""
    return "pass" if next(left, None) is not None else 403


def test_keys_that_end_in_the_middle_of_a_batch_end_it_and_new_ones_finish_it(server: ObjectServer) -> None:
    """At each of its requests: the batch says so in one line, and runs to its end when it is run again."""
    uri = "s3://b/d.db/t"
    Table.create(uri, SPEC, server.options)
    rows = pa.table({"k": pa.array(range(5), pa.int32())})
    said: list[str] = []
    for end in range(1, 60, 3):
        server.act = partial(for_some, iter(range(end)))
        try:
            Table.open(uri, {**server.options, "token": f"t{end}"}).upsert(rows, batch_id=f"b{end}")
        except InvalidInputError as error:
            said.append(str(error))
        server.act = lambda number, kind, key: "pass"
        Table.open(uri, server.options).upsert(rows, batch_id=f"b{end}")
        table = Table.open(uri, server.options)
        assert table.scan().to_arrow().num_rows == 5
        assert len(table.snapshots()) == (end + 2) // 3, "each batch is one snapshot"
    assert len(said) > 5
    # An answer to HEAD has no body that could say why.
    assert all("the credentials have expired: give new ones" in text or "access denied" in text for text in said), said
    assert not any("\n" in text for text in said)


def test_a_store_with_a_certificate_of_an_authority_of_one_s_own(tmp_path: Path) -> None:
    with object_server(tls=certificate(tmp_path)) as server:
        options = {**server.options, "max_attempts": 1}
        with pytest.raises(UnavailableError) as caught:
            open_store(PATH, options).put(PATH, b"1")
        assert "\n" not in str(caught.value)
        for verify in (str(tmp_path / "ca.pem"), False):
            store = open_store(PATH, {**options, "verify": verify})
            store.put(PATH, b"1")
            assert store.get(PATH) == b"1"


def test_a_service_account_of_google_signs_each_request(server: ObjectServer, tmp_path: Path) -> None:
    command = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
    key = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    account = {
        "private_key": key,
        "private_key_id": "1",
        "client_email": "lake@example.com",
        "gcs_base_url": server.url,
    }
    (tmp_path / "account.json").write_text(json.dumps({"type": "service_account", "disable_oauth": False, **account}))
    bearers: list[str] = []
    server.hear = lambda address, headers: bearers.append(headers.get("authorization", ""))
    store = open_store("gs://b/d", {"service_account": str(tmp_path / "account.json"), "endpoint_url": server.url})
    assert store.put_if_absent("gs://b/d/f", b"1")
    assert not store.put_if_absent("gs://b/d/f", b"2")
    # A token signed by the account itself: three parts, the first of them says how.
    assert [b.partition(" ")[0] for b in bearers] == ["Bearer"] * 2
    assert all(len(b.split(".")) == 3 for b in bearers)


def test_a_shared_access_signature_of_azure_goes_with_each_request_and_shows_nowhere(server: ObjectServer) -> None:
    asked: list[str] = []
    server.hear = lambda address, headers: asked.append(address)
    server.act = lambda number, kind, key: 403
    options = {"account_name": "a", "endpoint_url": f"{server.url}/a", "sas_token": "sv=2024&sp=rw&sig=the%2Dsignature"}
    with pytest.raises(InvalidInputError) as caught:
        open_store("az://c/d", {**options, "max_attempts": 1}).get("az://c/d/f")
    assert "sig=the" in asked[0]
    assert "signature" not in str(caught.value)


def written(store: ObjectStore, parts: int) -> bytes:
    data = bytes(range(256)) * (parts << 15)
    with store.open_output(PATH) as out:
        for at in range(0, len(data), 1 << 20):
            out.write(data[at : at + (1 << 20)])
    return data


def test_parts_go_side_by_side_up_and_down_and_no_more_than_the_limit(server: ObjectServer) -> None:
    seen = threading.Event()

    def act(number: int, kind: str, key: str) -> Act:
        # Each lasts a little, so that others come meanwhile.
        seen.wait(0.05)
        return "pass"

    for limit in (1, 3):
        store = open_store(PATH, {**server.options, "max_concurrency": limit})
        server.reset()
        server.act = act
        data = written(store, 4)
        assert server.at_once == limit
        assert server.acts["part", "pass"] >= 4
        server.at_once = 0
        assert store.get(PATH) == data
        # The request whose answer says that the object is large goes on until it is let go of.
        assert limit <= server.at_once <= limit + 1
        server.at_once = 0
        store.put_many([(f"s3://b/d/{n}", b"1") for n in range(12)])
        assert server.at_once == limit


def test_what_is_read_ahead_stays_within_the_store_s_option(server: ObjectServer) -> None:
    step, taken = 1 << 20, list[int]()
    data = written(open_store(PATH, server.options), 4)

    def act(number: int, kind: str, key: str) -> Act:
        taken.append(range_file.ROOM.taken)
        return "pass"

    for limit in (2, 20):
        server.act, taken[:] = act, []
        with open_store(PATH, {**server.options, "read_ahead_mb": limit}).open_input(PATH, size=len(data)) as source:
            source.ranges.expect([(n * step, step)] for n in range(30))
            for n in range(30):
                source.ranges.hold([(n * step, step)])
                assert source.read_at(step, n * step) == data[n * step : (n + 1) * step]
        assert step < max(taken) <= limit * step, limit
        del source


@pytest.mark.parametrize("scheme", ["s3", "gs", "file"])
def test_other_libraries_open_the_files_of_a_table(server: ObjectServer, tmp_path: Path, scheme: str) -> None:
    """By fsspec, with the table's own options."""
    options = {"s3": server.options, "gs": {"endpoint_url": server.url, "token": "t"}}.get(scheme)
    table = Table.create(f"{f'{scheme}://b' if options else tmp_path}/d.db/t", SPEC, options)
    table.upsert(pa.table({"k": pa.array(range(5), pa.int32())}))
    files = table.file_system()
    (path,) = table.files().column("path")
    with files.open(path) as file:
        assert pq.read_table(file).column("k").to_pylist() == [0, 1, 2, 3, 4]
    assert pq.read_table(path, filesystem=files).num_rows == 5
    assert "the-secret" not in repr(files)


def test_verbs_of_upkeep_say_their_requests(server: ObjectServer, caplog: pytest.LogCaptureFixture) -> None:
    table = Table.create("s3://b/d.db/t", SPEC, server.options)
    table.upsert(pa.table({"k": pa.array(range(5), pa.int32())}))
    for name in ("verify", "expire", "orphans", "compact"):
        server.acts.clear()
        with caplog.at_level(logging.INFO, "lakeidx.api.maintenance"):
            getattr(table, name)()
        assert f"{name} made {server.acts.total()} requests to the store" in caplog.text
