"""Storage options and environment names of S3 stores, converted to arguments of s3fs.

=====================  ===============================================================================================
option                 also spelled (any case, ``-``, ``.`` and ``_`` alike)
=====================  ===============================================================================================
endpoint_url           aws_endpoint_url, endpoint, s3.endpoint; environment AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL
key                    aws_access_key_id, access_key, s3.access-key; environment AWS_ACCESS_KEY_ID
secret                 aws_secret_access_key, secret_key, s3.secret-key; environment AWS_SECRET_ACCESS_KEY
token                  aws_session_token, session_token; environment AWS_SESSION_TOKEN
region                 aws_region, region_name; environment AWS_REGION, AWS_DEFAULT_REGION
profile                aws_profile; environment AWS_PROFILE
anon                   true: requests are not signed
path_style             s3.path.style.access: bucket in the path (default with an endpoint), not in the host name
use_ssl, verify        verify: true, false or a file of certificates
max_concurrency        requests of one call at once (10)
connect_timeout        seconds (10); read_timeout: seconds (60); max_attempts: tries of one request (6)
client_kwargs,         handed on to s3fs
config_kwargs
=====================  ===============================================================================================

The environment names that are not read here are read by botocore itself (profiles, instance roles, ...).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from lakeidx.errors import InvalidInputError

_SPELLINGS = {
    "endpoint_url": (
        "endpoint",
        "aws_endpoint_url",
        "aws_endpoint",
        "s3_endpoint",
        "endpoint_override",
        "aws_endpoint_url_s3",
    ),
    "key": ("aws_access_key_id", "access_key_id", "access_key", "s3_access_key"),
    "secret": ("aws_secret_access_key", "secret_access_key", "secret_key", "s3_secret_key"),
    "token": ("aws_session_token", "session_token", "s3_session_token"),
    "region": ("aws_region", "region_name", "aws_default_region", "s3_region"),
    "profile": ("aws_profile",),
    "anon": ("anonymous", "skip_signature", "aws_skip_signature"),
    "path_style": ("s3_path_style_access", "path_style_access", "force_path_style"),
    "use_ssl": (),
    "verify": (),
    "max_concurrency": (),
    "connect_timeout": (),
    "read_timeout": (),
    "max_attempts": (),
    "client_kwargs": (),
    "config_kwargs": (),
    "allow_http": ("aws_allow_http",),
}
_NAME_OF = {spelling: name for name, others in _SPELLINGS.items() for spelling in (name, *others)}
_FLAGS = ("anon", "path_style", "use_ssl", "allow_http")
_NUMBERS = ("max_concurrency", "connect_timeout", "read_timeout", "max_attempts")


@dataclass(frozen=True, slots=True)
class S3Options:
    """The settings of an S3 store. Secrets never show in its repr."""

    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    anon: bool = False
    path_style: bool | None = None
    use_ssl: bool | None = None
    verify: bool | str | None = None
    max_concurrency: int = 10
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    max_attempts: int = 6
    client_kwargs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    config_kwargs: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, Any] | None) -> S3Options:
        """Read storage options.

        errors   InvalidInputError for a name that is not known or a value of the wrong kind
        """
        found: dict[str, Any] = {}
        for spelled, value in (options or {}).items():
            name = _NAME_OF.get(re.sub(r"[.-]", "_", spelled.lower()))
            if name is None:
                raise InvalidInputError(
                    f"unknown storage option {spelled!r}; known are {', '.join(sorted(_SPELLINGS))}"
                )
            if value is not None:
                found[name] = _read(name, spelled, value)
        found.pop("allow_http", None)
        return cls(**found)

    def s3fs_kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments for ``s3fs.S3FileSystem``; reads the environment for endpoint and region.

        errors   InvalidInputError for an endpoint that is no address
        """
        env = os.environ
        endpoint = self.endpoint_url or env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or None
        if endpoint is not None:
            check_endpoint(endpoint, "AWS_ENDPOINT_URL or storage option endpoint_url")
        region = self.region or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")
        if region is None and endpoint is not None and self.profile is None:
            region = "us-east-1"  # signing needs some region; stores other than Amazon's take any
        path_style = self.path_style if self.path_style is not None else endpoint is not None
        client = {"region_name": region, "verify": self.verify, **self.client_kwargs}
        config: dict[str, Any] = {
            "connect_timeout": self.connect_timeout,
            "read_timeout": self.read_timeout,
            # One place retries: lakeidx.storage.s3.store. A hidden retry of a conditional put would take our file for another's.
            "retries": {"total_max_attempts": 1, "mode": "standard"},
            "max_pool_connections": max(32, self.max_concurrency * 2),
            # Trailing checksums in chunked uploads are refused by several S3-compatible stores.
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
            **self.config_kwargs,
        }
        if path_style:
            config["s3"] = {"addressing_style": "path", **config.get("s3", {})}
        kwargs = {
            "endpoint_url": endpoint,
            "key": self.key,
            "secret": self.secret,
            "token": self.token,
            "profile": self.profile,
            "use_ssl": self.use_ssl,
        }
        return {
            **{name: value for name, value in kwargs.items() if value is not None},
            "anon": self.anon,
            "client_kwargs": {name: value for name, value in client.items() if value is not None},
            "config_kwargs": config,
            "max_concurrency": self.max_concurrency,
            # A listing must never be older than the call.
            "use_listings_cache": False,
            "skip_instance_cache": True,
        }


def check_endpoint(url: str, setting: str) -> None:
    """Refuse what is no address of a server, which botocore answers with a bare ValueError, or not at all.

    setting  where it may come from, for the message
    errors   InvalidInputError
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise InvalidInputError(f"endpoint {url!r}: expected http://host:port or https://host; see {setting}")


def _read(name: str, spelled: str, value: Any) -> Any:
    try:
        if name in _FLAGS or (name == "verify" and str(value).lower() in ("true", "false")):
            word = str(value).strip().lower()
            if word not in ("true", "false", "1", "0"):
                raise ValueError("true or false")
            return word in ("true", "1")
        if name in _NUMBERS:
            number = float(value)
            if not number > 0:
                raise ValueError("a number above 0")
            return number if name.endswith("timeout") else int(number)
        if name.endswith("_kwargs"):
            if not isinstance(value, Mapping):
                raise ValueError("a mapping")
            return dict(value)
    except (TypeError, ValueError) as e:
        raise InvalidInputError(f"storage option {spelled!r}: expected {e}") from e
    return str(value)
