from __future__ import annotations

from typing import Any

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.storage.s3.options import S3Options

NAMES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("spelled", "name", "value"),
    [
        ("endpoint_url", "endpoint_url", "http://x"), ("AWS_ENDPOINT_URL", "endpoint_url", "http://x"),
        ("s3.endpoint", "endpoint_url", "http://x"), ("key", "key", "k"), ("aws_access_key_id", "key", "k"),
        ("s3.access-key", "key", "k"), ("secret", "secret", "s"), ("AWS_SECRET_ACCESS_KEY", "secret", "s"),
        ("s3.secret-key", "secret", "s"), ("AWS_SESSION_TOKEN", "token", "t"), ("token", "token", "t"),
        ("region", "region", "eu"), ("AWS_REGION", "region", "eu"), ("aws_default_region", "region", "eu"),
        ("profile", "profile", "p"), ("AWS_PROFILE", "profile", "p"),
    ],
)  # fmt: skip
def test_every_spelling_of_an_option_counts(spelled: str, name: str, value: str) -> None:
    assert getattr(S3Options.parse({spelled: value}), name) == value


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"s3.path.style.access": "true"}, "path_style", True), ({"path_style": False}, "path_style", False),
        ({"anon": "true"}, "anon", True), ({"use_ssl": "false"}, "use_ssl", False), ({"verify": "false"}, "verify", False),
        ({"verify": "/ca.pem"}, "verify", "/ca.pem"), ({"max_attempts": "2"}, "max_attempts", 2),
        ({"read_timeout": "1.5"}, "read_timeout", 1.5), ({"key": None}, "key", None), ({"aws_allow_http": "true"}, "anon", False),
    ],
)  # fmt: skip
def test_values_are_parsed(options: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(S3Options.parse(options), name) == value


@pytest.mark.parametrize(
    "options",
    [{"endpont": "x"}, {"anon": "perhaps"}, {"max_attempts": "0"}, {"read_timeout": "soon"}, {"client_kwargs": "x"}],
)
def test_what_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        S3Options.parse(options)


def test_an_endpoint_means_path_style_and_some_region() -> None:
    kwargs = S3Options.parse({"endpoint_url": "http://localhost:1"}).s3fs_kwargs()
    assert kwargs["endpoint_url"] == "http://localhost:1"
    assert kwargs["config_kwargs"]["s3"] == {"addressing_style": "path"}
    assert kwargs["client_kwargs"]["region_name"] == "us-east-1"
    amazon = S3Options.parse({}).s3fs_kwargs()
    assert "endpoint_url" not in amazon
    assert "s3" not in amazon["config_kwargs"]
    assert "region_name" not in amazon["client_kwargs"]
    other = S3Options.parse({"endpoint_url": "http://x", "path_style": "false", "region": "eu"}).s3fs_kwargs()
    assert "s3" not in other["config_kwargs"]
    assert other["client_kwargs"]["region_name"] == "eu"


def test_the_environment_is_below_given_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://env")
    monkeypatch.setenv("AWS_REGION", "here")
    kwargs = S3Options.parse({}).s3fs_kwargs()
    assert (kwargs["endpoint_url"], kwargs["client_kwargs"]["region_name"]) == ("http://env", "here")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3")
    assert S3Options.parse({}).s3fs_kwargs()["endpoint_url"] == "http://s3"
    assert S3Options.parse({"endpoint_url": "http://own"}).s3fs_kwargs()["endpoint_url"] == "http://own"


def test_listings_are_not_kept_and_nothing_is_retried_below() -> None:
    kwargs = S3Options.parse({}).s3fs_kwargs()
    assert kwargs["use_listings_cache"] is False
    assert kwargs["config_kwargs"]["retries"]["total_max_attempts"] == 1


def test_options_of_the_client_are_passed_on() -> None:
    kwargs = S3Options.parse(
        {"client_kwargs": {"a": 1}, "config_kwargs": {"b": 2, "s3": {"c": 3}}, "endpoint_url": "http://x"}
    ).s3fs_kwargs()
    assert kwargs["client_kwargs"]["a"] == 1
    assert kwargs["config_kwargs"]["b"] == 2
    assert kwargs["config_kwargs"]["s3"] == {"addressing_style": "path", "c": 3}


def test_repr_hides_secrets() -> None:
    assert "hush" not in repr(
        S3Options.parse({"key": "hush", "secret": "hush", "token": "hush", "client_kwargs": {"p": "hush"}})
    )


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8333", "localhost", "http://", "ftp://x:1", "http://x:99999", "http://x:port", "https:/x"]
)
def test_an_endpoint_that_is_no_address_is_one_line(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Botocore raised a bare ValueError for a host without a scheme, and others were tried again and again."""
    for given in ({"endpoint_url": url}, {}):
        monkeypatch.setenv("AWS_ENDPOINT_URL", url if not given else "http://right")
        with pytest.raises(InvalidInputError, match=r"expected http://host:port or https://host"):
            S3Options.parse(given).s3fs_kwargs()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8333", "https://s3.eu-central-1.amazonaws.com", "http://[::1]:9000", "HTTP://x"]
)
def test_endpoints_are_addresses(url: str) -> None:
    assert S3Options.parse({"endpoint_url": url}).s3fs_kwargs()["endpoint_url"] == url
