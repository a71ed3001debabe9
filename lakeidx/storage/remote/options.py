"""Storage options of object stores, converted to what obstore's clients take.

=====================  ===============================================================================================
option                 for which stores, and what it is
=====================  ===============================================================================================
endpoint_url           all: another server than the cloud's
anon                   all: true: requests are not signed
verify                 all: true, false, or a file of certificates that count beside the system's
max_concurrency        all: requests of one call at once (10)
read_ahead_mb          all: of all files that a process reads, what it may hold before it is needed (64)
connect_timeout        all: seconds (10); read_timeout: seconds without an answer (60); max_attempts: tries of a request (6)
proxy_url              all: a proxy for requests; without it HTTPS_PROXY and NO_PROXY count
client_options         all: a mapping of further settings of obstore's HTTP client (``ClientConfig``)
key, secret, token     s3: credentials; also aws_access_key_id, s3.access-key, ...
region, profile        s3: profile of ~/.aws (needs ``lakeidx[aws]``)
path_style             s3: bucket in the path (default with an endpoint), not in the host name
service_account        gs: a file with a service account's key; service_account_key: its text; application_credentials; token
account_name           az: account_key, sas_token, token, tenant_id, client_id, client_secret, ...
=====================  ===============================================================================================

Names count in any case, with ``-``, ``.`` and ``_`` alike, and with the prefix of their cloud (``aws_``, ``s3.``; ``google_``,
``gcs_``; ``azure_``, ``azure_storage_``). The environment's names are those that obstore documents.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lakeidx.errors import InvalidInputError
from lakeidx.storage.range_file import ALL_AHEAD_BYTES


class Cloud(NamedTuple):
    """A kind of store.

    prefixes   that names of options may have
    names      options by their name: that of obstore's setting
    others     further spellings: the option's name
    as_is      options that have obstore's name
    """

    prefixes: tuple[str, ...]
    names: Mapping[str, str]
    others: Mapping[str, str]
    as_is: tuple[str, ...]


_CLOUDS = {
    "s3": Cloud(
        ("aws_", "s3_"),
        {"endpoint_url": "endpoint", "key": "access_key_id", "secret": "secret_access_key", "token": "session_token",
         "region": "region", "anon": "skip_signature", "path_style": "", "profile": "", "use_ssl": "",
         "sts_endpoint": "endpoint_url_sts"},
        {"endpoint": "endpoint_url", "endpoint_override": "endpoint_url", "endpoint_url_s3": "endpoint_url",
         "access_key_id": "key", "access_key": "key", "secret_access_key": "secret", "secret_key": "secret",
         "session_token": "token", "region_name": "region", "default_region": "region", "profile_name": "profile",
         "anonymous": "anon", "skip_signature": "anon", "path_style_access": "path_style", "force_path_style": "path_style",
         "endpoint_url_sts": "sts_endpoint"},
        ("server_side_encryption", "sse_kms_key_id", "sse_bucket_key_enabled", "sse_customer_key_base64", "request_payer",
         "role_arn", "role_session_name", "web_identity_token_file", "metadata_endpoint", "imdsv1_fallback",
         "unsigned_payload", "checksum_algorithm", "disable_bulk_delete", "s3_express"),
    ),
    "gs": Cloud(
        ("google_", "gcs_", "gs_"),
        {"endpoint_url": "base_url", "anon": "skip_signature", "token": "bearer_token"},
        {"endpoint": "endpoint_url", "base_url": "endpoint_url", "anonymous": "anon", "skip_signature": "anon",
         "bearer_token": "token", "service_account_path": "service_account"},
        ("service_account", "service_account_key", "application_credentials"),
    ),
    "az": Cloud(
        ("azure_storage_", "azure_", "adls_", "az_"),
        {"endpoint_url": "endpoint", "anon": "skip_signature", "sas_token": "sas_key", "token": "token"},
        {"endpoint": "endpoint_url", "anonymous": "anon", "skip_signature": "anon", "sas_key": "sas_token",
         "bearer_token": "token", "access_key": "account_key", "master_key": "account_key", "authority_id": "tenant_id"},
        ("account_name", "account_key", "tenant_id", "client_id", "client_secret", "authority_host", "federated_token_file",
         "msi_endpoint", "object_id", "msi_resource_id", "credential_type", "use_azure_cli", "use_emulator",
         "use_fabric_endpoint", "encryption_key"),
    ),
}  # fmt: skip
_FLAGS = ("anon", "path_style", "use_ssl", "allow_http")
_NUMBERS = ("max_concurrency", "read_ahead_mb", "connect_timeout", "read_timeout", "max_attempts")
_COMMON = (*_NUMBERS, "allow_http", "verify", "proxy_url", "client_options")
#: Options of the client of before.
_GONE = {
    "client_kwargs": "client_options, and region and verify by their names",
    "config_kwargs": "client_options, and proxy_url, connect_timeout and read_timeout by their names",
}


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """The settings of an object store. Secrets never show in its repr.

    cloud    s3, gs or az
    config   settings of obstore's store of that cloud
    """

    cloud: str
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    profile: str | None = None
    path_style: bool | None = None
    verify: bool | str = True
    max_concurrency: int = 10
    read_ahead_mb: int = ALL_AHEAD_BYTES >> 20
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    max_attempts: int = 6
    proxy_url: str | None = field(default=None, repr=False)
    client_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, cloud: str, options: Mapping[str, Any] | None = None) -> RemoteOptions:
        """Read storage options.

        cloud    s3, gs or az
        errors   InvalidInputError for a name that is not known or a value of the wrong kind
        """
        kind = _CLOUDS[cloud]
        found: dict[str, Any] = {}
        config: dict[str, Any] = {}
        for spelled, value in (options or {}).items():
            name = _name_of(kind, spelled)
            if value is None:
                continue
            parsed = _read(name, spelled, value)
            if name in kind.as_is or kind.names.get(name):
                config[kind.names.get(name, name)] = parsed
            elif name == "use_ssl" and not parsed:
                raise InvalidInputError(
                    f"storage option {spelled!r}: write http:// in endpoint_url for a store without TLS"
                )
            elif name not in ("use_ssl", "allow_http"):
                found[name] = parsed
        if cloud == "s3" and ("access_key_id" in config) != ("secret_access_key" in config):
            raise InvalidInputError("storage options key and secret belong together: set both, or neither")
        return cls(cloud, config, **found)

    def endpoint(self) -> str | None:
        """Return the address of another server than the cloud's; reads the environment.

        errors   InvalidInputError for what is no address
        """
        names = {
            "s3": ("endpoint", ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")),
            "gs": ("base_url", ("GOOGLE_BASE_URL",)),
            "az": ("endpoint", ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")),
        }
        setting, variables = names[self.cloud]
        given = (self.config.get(setting), *(os.environ.get(variable) for variable in variables))
        url = next((text for text in given if text), None)
        if url is not None:
            check_endpoint(url, f"{' or '.join(variables)}, or storage option endpoint_url")
        return url


def check_endpoint(url: str, setting: str) -> None:
    """Refuse what is no address of a server.

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


def _name_of(kind: Cloud, spelled: str) -> str:
    plain = re.sub(r"[.-]", "_", spelled.lower())
    short = next((plain.removeprefix(p) for p in kind.prefixes if plain.startswith(p)), plain)
    for name in (plain, short):
        found = kind.others.get(name, name)
        if found in kind.names or found in kind.as_is or found in _COMMON:
            return found
    if plain in _GONE:
        raise InvalidInputError(f"storage option {spelled!r} is not taken any more: use {_GONE[plain]}")
    known = sorted((*kind.names, *kind.as_is, *_COMMON))
    raise InvalidInputError(f"unknown storage option {spelled!r}; known are {', '.join(known)}")


def _read(name: str, spelled: str, value: Any) -> Any:
    try:
        if name in _FLAGS or (name == "verify" and str(value).lower() in ("true", "false")):
            word = str(value).strip().lower()
            if word not in ("true", "false", "1", "0"):
                raise ValueError("true or false")
            return word in ("true", "1")
        if name in _NUMBERS:
            number = float(value)
            if not 0 < number < 1e9:
                raise ValueError("a number above 0")
            return number if name.endswith("timeout") else max(1, int(number))
        if name == "client_options":
            if not isinstance(value, Mapping):
                raise ValueError("a mapping")
            return dict(value)
    except (TypeError, ValueError) as e:
        raise InvalidInputError(f"storage option {spelled!r}: expected {e}") from e
    return str(value)
