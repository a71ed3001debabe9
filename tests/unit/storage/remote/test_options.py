from __future__ import annotations

from typing import Any

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.storage.remote.options import RemoteOptions


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "AWS_ENDPOINT_URL_S3",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT",
        "GOOGLE_BASE_URL",
        "AZURE_STORAGE_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("cloud", "spelled", "setting"),
    [
        *(("s3", name, "endpoint") for name in ("endpoint_url", "AWS_ENDPOINT_URL", "s3.endpoint", "aws_endpoint_url_s3")),
        *(("s3", name, "session_token") for name in ("token", "AWS_SESSION_TOKEN", "session-token")),
        *(("s3", name, "region") for name in ("region", "AWS_REGION", "aws_default_region", "region_name")),
        ("s3", "s3.server-side-encryption", "server_side_encryption"), ("s3", "aws_sts_endpoint", "endpoint_url_sts"),
        ("gs", "GOOGLE_SERVICE_ACCOUNT", "service_account"), ("gs", "token", "bearer_token"), ("gs", "endpoint_url", "base_url"),
        ("az", "AZURE_STORAGE_ACCOUNT_NAME", "account_name"), ("az", "sas_token", "sas_key"),
        ("az", "azure_storage_sas_key", "sas_key"), ("az", "AZURE_CLIENT_ID", "client_id"), ("az", "access_key", "account_key"),
    ],
)  # fmt: skip
def test_every_spelling_of_an_option_counts(cloud: str, spelled: str, setting: str) -> None:
    assert RemoteOptions.parse(cloud, {spelled: "http://x"}).config == {setting: "http://x"}


@pytest.mark.parametrize(
    ("key", "secret"),
    [("key", "secret"), ("aws_access_key_id", "AWS_SECRET_ACCESS_KEY"), ("s3.access-key", "s3.secret-key")],
)
def test_credentials_belong_together(key: str, secret: str) -> None:
    assert RemoteOptions.parse("s3", {key: "k", secret: "s"}).config == {"access_key_id": "k", "secret_access_key": "s"}
    for only in (key, secret):
        with pytest.raises(InvalidInputError, match="belong together"):
            RemoteOptions.parse("s3", {only: "x"})


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"s3.path.style.access": "true"}, "path_style", True), ({"path_style": False}, "path_style", False),
        ({"verify": "false"}, "verify", False), ({"verify": "/ca.pem"}, "verify", "/ca.pem"),
        ({"max_attempts": "2"}, "max_attempts", 2), ({"read_timeout": "1.5"}, "read_timeout", 1.5),
        ({"AWS_PROFILE": "p"}, "profile", "p"), ({"profile_name": "p"}, "profile", "p"), ({"proxy_url": "http://p"}, "proxy_url", "http://p"),
        ({"client_options": {"user_agent": "x"}}, "client_options", {"user_agent": "x"}),
        ({"anon": "true"}, "config", {"skip_signature": True}), ({"use_ssl": "true"}, "config", {}),
        ({"aws_allow_http": "true"}, "config", {}), ({"region": None}, "config", {}),
    ],
)  # fmt: skip
def test_values_are_parsed(options: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(RemoteOptions.parse("s3", options), name) == value


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"endpont": "x"}, "unknown storage option 'endpont'; known are"), ({"anon": "perhaps"}, "'anon': expected true or false"),
        ({"max_attempts": "0"}, "'max_attempts': expected a number above 0"), ({"read_timeout": "soon"}, "'read_timeout'"),
        ({"read_timeout": "nan"}, "'read_timeout'"), ({"client_options": "x"}, "'client_options': expected a mapping"),
        ({"client_kwargs": {"x": 1}}, "'client_kwargs' is not taken any more: use client_options"),
        ({"config_kwargs": {"x": 1}}, "'config_kwargs' is not taken any more: use client_options"),
        ({"use_ssl": "false"}, "'use_ssl': write http:// in endpoint_url"),
        ({"account_key": "x"}, "unknown storage option 'account_key'"),
    ],
)  # fmt: skip
def test_what_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        RemoteOptions.parse("s3", options)


def test_the_environment_is_below_given_options(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RemoteOptions.parse("s3").endpoint() is None
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://env")
    assert RemoteOptions.parse("s3").endpoint() == "http://env"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3")
    assert RemoteOptions.parse("s3").endpoint() == "http://s3"
    assert RemoteOptions.parse("s3", {"endpoint_url": "http://own"}).endpoint() == "http://own"
    assert RemoteOptions.parse("gs").endpoint() is None


def test_repr_hides_secrets() -> None:
    given = {
        "key": "hush",
        "secret": "hush",
        "token": "hush",
        "proxy_url": "http://u:hush@p",
        "client_options": {"p": "hush"},
    }
    assert "hush" not in repr(RemoteOptions.parse("s3", given))


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8333", "localhost", "http://", "ftp://x:1", "http://x:99999", "http://x:port", "https:/x"]
)
def test_an_endpoint_that_is_no_address_is_one_line(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for given in ({"endpoint_url": url}, {}):
        monkeypatch.setenv("AWS_ENDPOINT_URL", url if not given else "http://right")
        with pytest.raises(InvalidInputError, match=r"expected http://host:port or https://host"):
            RemoteOptions.parse("s3", given).endpoint()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8333", "https://s3.eu-central-1.amazonaws.com", "http://[::1]:9000", "HTTP://x"]
)
def test_endpoints_are_addresses(url: str) -> None:
    assert RemoteOptions.parse("s3", {"endpoint_url": url}).endpoint() == url
