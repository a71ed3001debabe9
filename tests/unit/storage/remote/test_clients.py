"""Clients of object stores: their settings, and processes that are forked."""

from __future__ import annotations

import multiprocessing
import pickle
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest

from lakeidx.errors import InvalidInputError, UnavailableError
from lakeidx.storage import open_store
from lakeidx.storage.remote.clients import client_for
from lakeidx.storage.remote.options import _CLOUDS, RemoteOptions
from lakeidx.testing.limits import HANGS_SECONDS


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "ENDPOINT_URL",
        "REGION",
        "DEFAULT_REGION",
        "PROFILE",
        "ACCESS_KEY_ID",
        "SECRET_ACCESS_KEY",
        "SESSION_TOKEN",
    ):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def made(options: dict[str, Any], bucket: str = "b", cloud: str = "s3") -> Any:
    return client_for(bucket, RemoteOptions.parse(cloud, options), repr(options), {}, patient=False)


def test_an_endpoint_means_path_style_and_some_region(monkeypatch: pytest.MonkeyPatch) -> None:
    own = made({"endpoint_url": "http://localhost:1/"})
    assert (own.config["endpoint_url_s3"], own.config["virtual_hosted_style_request"]) == (
        "http://localhost:1",
        "false",
    )
    assert own.config["region"] == "us-east-1"
    assert own.retry_config["max_retries"] == 0
    amazon = made({"region": "eu-west-1"})
    assert "endpoint_url_s3" not in amazon.config
    assert (amazon.config["region"], amazon.config["virtual_hosted_style_request"]) == ("eu-west-1", "true")
    # A certificate for *.s3.amazonaws.com does not cover a host with one more dot.
    assert made({}, "a.b").config["virtual_hosted_style_request"] == "false"
    assert made({"endpoint_url": "https://x", "path_style": "false"}).config["endpoint_url_s3"] == "https://b.x"
    # A variable does not count more than an option, whichever of its names it has.
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://env")
    assert made({"endpoint_url": "http://own"}).config["endpoint_url_s3"] == "http://own"


def test_a_token_of_the_environment_is_not_sent_with_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "env")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "env")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "env")
    given = made({"key": "k", "secret": "s"}).credential_provider()
    assert (given["access_key_id"], given["secret_access_key"], given["token"]) == ("k", "s", None)
    assert made({}).credential_provider is None
    assert made({"anon": True}).config["skip_signature"] == "true"


def test_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text("[one]\naws_access_key_id = a\naws_secret_access_key = b\n")
    (folder / "config").write_text("[profile one]\nregion = eu-north-1\n")
    for options in ({"profile": "one"}, {}):
        if not options:
            monkeypatch.setenv("AWS_PROFILE", "one")
        client = made(options)
        assert client.config["region"] == "eu-north-1"
        assert client.credential_provider()["access_key_id"] == "a"
    with pytest.raises(InvalidInputError, match=r"profile 'none' of ~/\.aws gives no credentials"):
        made({"profile": "none"})
    monkeypatch.setitem(sys.modules, "obstore.auth.boto3", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'lakeidx\[aws\]'"):
        made({"profile": "one"})


def test_certificates_and_time_limits(tmp_path: Path) -> None:
    defaults = ssl.get_default_verify_paths().cafile or ""
    client = made(
        {"verify": False, "read_timeout": 2.5, "proxy_url": "http://p:1", "client_options": {"user_agent": "x"}}
    )
    assert client.client_options["allow_invalid_certificates"] in (True, "true")
    assert {"read_timeout", "timeout", "proxy_url", "user_agent"} <= set(client.client_options)
    with pytest.raises(InvalidInputError, match="verify: No such file"):
        made({"verify": str(tmp_path / "none.pem")})
    (tmp_path / "bad.pem").write_text("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")
    with pytest.raises(InvalidInputError, match="settings are not usable"):
        made({"verify": str(tmp_path / "bad.pem")})
    if defaults:
        made({"verify": defaults})


def test_what_a_setting_holds_is_not_shown_when_it_is_wrong() -> None:
    with pytest.raises(InvalidInputError, match="settings are not usable") as caught:
        made({"account_name": "a", "account_key": "the secret !"}, cloud="az")
    assert "the secret" not in str(caught.value)


@pytest.mark.parametrize("cloud", _CLOUDS)
def test_every_option_is_one_that_the_client_knows(cloud: str) -> None:
    needed = {"az": {"account_name": "a"}}.get(cloud, {})
    for name in (*_CLOUDS[cloud].as_is, *(name for name, setting in _CLOUDS[cloud].names.items() if setting)):
        both = {"key": "k", "secret": "s"} if name in ("key", "secret") else {name: "true"}
        said = ""
        try:
            made({**needed, **both}, cloud=cloud)
        except InvalidInputError as error:
            said = str(error)
        assert "is not valid for" not in said


def test_other_clouds() -> None:
    google = made({"token": "t"}, cloud="gs")
    assert google.config["bucket"] == "b"
    azure = made({"account_key": "a2V5"}, "c@acct.dfs.core.windows.net", cloud="az")
    assert (azure.config["account_name"], azure.config["container_name"]) == ("acct", "c")


def _read(store: Any, queue: Any) -> None:
    try:
        store.get("s3://b/f")
    except BaseException as e:
        queue.put(f"{type(e).__name__}: {e}")


@pytest.mark.slow
def test_a_forked_child_fails_at_once_in_one_line_and_a_spawned_one_works() -> None:
    store = open_store("s3://b/f", {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s", "max_attempts": 1})
    with pytest.raises(UnavailableError):
        store.get("s3://b/f")
    outcomes = []
    for context in (multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")):
        queue: Any = context.Queue()
        child = context.Process(target=_read, args=(store, queue))
        child.start()
        outcomes.append(queue.get(timeout=HANGS_SECONDS))
        child.join(HANGS_SECONDS)
    assert [o.partition(":")[0] for o in outcomes] == ["UnsupportedError", "UnavailableError"]
    assert "start processes with multiprocessing's method 'spawn'" in outcomes[0]
    assert "\n" not in outcomes[0]


def test_what_is_pickled_is_uri_and_options() -> None:
    store = open_store("s3://b/f", {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s", "max_attempts": 1})
    assert b"obstore" not in pickle.dumps(store)
    assert pickle.loads(pickle.dumps(store)).uri == "s3://b/f"
