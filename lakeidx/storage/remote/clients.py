"""Clients of obstore, made and kept: one per process, bucket and options; none in a process forked from one that has some."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.storage.remote.options import RemoteOptions

#: By cloud, bucket, patience, options and environment: a Spark worker unpickles a store per task, and keeps its connections.
Clients = dict[tuple[str, str, bool, str, str], Any]

SHARED_CLIENTS: Clients = {}
#: Of a client that repeats requests; twice that before the next one, and so on.
FIRST_WAIT_SECONDS = 0.1
#: Of the names of this setting the one that no variable of the environment counts more than.
_ENDPOINT = "aws_endpoint_url_s3"
_VARIABLES = ("AWS_", "GOOGLE_", "AZURE_")
_used_by: list[int] = []
#: Without the environment's keys or roles, these are looked at; a profile in them needs boto3.
_PROFILES = ("~/.aws/credentials", "~/.aws/config")
_ROLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
#: How long credentials of a profile are taken for good: boto3 renews them ten minutes before they end.
_PROFILE_LIFE = timedelta(minutes=5)


def client_for(bucket: str, options: RemoteOptions, raw_options: str, clients: Clients, *, patient: bool) -> Any:
    """Return the client of a bucket; made when it is first requested.

    bucket        as the URI has it: of Azure it may name the account, too
    raw_options   what tells options apart
    clients       `SHARED_CLIENTS`, or a dictionary of the caller's for connections of its own
    patient       one that itself repeats requests which fail: for calls that make several
    errors        UnsupportedError in a process forked from one that has used a store; InvalidInputError
    """
    _check_not_forked()
    environment = repr(sorted((k, v) for k, v in os.environ.items() if k.startswith(_VARIABLES)))
    key = (options.cloud, bucket, patient, raw_options, environment)
    found = clients.get(key)
    # Two threads may both make one: the first stays.
    return clients.setdefault(key, _connect(bucket, options, patient=patient)) if found is None else found


def _check_not_forked() -> None:
    """Refuse to wait for ever: the threads that a client's requests run in do not come along to a forked child."""
    process = os.getpid()
    if not _used_by:
        _used_by.append(process)
    if _used_by[0] != process:
        raise UnsupportedError(
            "this process was forked from one that had used an object store, whose connections do not survive that: "
            "start processes with multiprocessing's method 'spawn' or 'forkserver'"
        )


def open_file_system(scheme: str, bucket: str, options: RemoteOptions) -> Any:
    """Return obstore's fsspec file system of a bucket's settings, for other libraries; requests that fail are repeated.

    scheme   of the paths that it is given
    errors   UnsupportedError in a process forked from one that has used a store; InvalidInputError
    """
    from obstore.fsspec import FsspecStore

    _check_not_forked()
    make: Any = FsspecStore
    settings = _settings(bucket, options, patient=True)
    # It does not know the name by which an option counts more than a variable.
    endpoint = settings["config"].pop(_ENDPOINT, None)
    more = {} if endpoint is None else {"endpoint": endpoint}
    return _made(lambda: make(scheme, **{**settings, "config": settings["config"] | more}), options)


def _connect(bucket: str, options: RemoteOptions, *, patient: bool) -> Any:
    from obstore.store import AzureStore, GCSStore, S3Store

    store: Any = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[options.cloud]
    # Of Azure: container@account.dfs.core.windows.net
    name = bucket.partition("@")[0]
    return _made(lambda: store(name, **_settings(bucket, options, patient=patient)), options)


def _settings(bucket: str, options: RemoteOptions, *, patient: bool) -> dict[str, Any]:
    """Return what the bucket's client is made with."""
    retries = {
        "max_retries": options.max_attempts - 1 if patient else 0,
        "retry_timeout": timedelta(minutes=3),
        "backoff": {
            "init_backoff": timedelta(seconds=FIRST_WAIT_SECONDS),
            "max_backoff": timedelta(seconds=8),
            "base": 2,
        },
    }
    common = {"client_options": _http(options), "retry_config": retries}
    if options.cloud == "s3":
        return _of_s3(bucket, options) | common
    config = dict(options.config)
    if "@" in bucket:
        config["account_name"] = bucket.partition("@")[2].partition(".")[0]
    return {"config": config, **common}


def _made(make: Callable[[], Any], options: RemoteOptions) -> Any:
    """Make a client; refuse settings that it does not take, without the secrets among them."""
    from obstore.exceptions import BaseError

    try:
        return make()
    except (BaseError, ValueError, TypeError) as e:
        # What it says of a setting that it cannot read may have the setting's value in it: a secret.
        said = str(e).partition("\n")[0]
        for value in options.config.values():
            said = said.replace(value, "...") if isinstance(value, str) and value else said
        raise InvalidInputError(f"the store's settings are not usable: {said}") from None


def _http(options: RemoteOptions) -> dict[str, Any]:
    http: dict[str, Any] = {
        "connect_timeout": f"{round(options.connect_timeout * 1000)}ms",
        "read_timeout": f"{round(options.read_timeout * 1000)}ms",
        # Of a whole request, however slow: parts of an upload have 8 MB.
        "timeout": f"{round(options.read_timeout * 10_000)}ms",
        "allow_http": (options.endpoint() or "").startswith("http://"),
    }
    if options.proxy_url:
        http["proxy_url"] = options.proxy_url
    if options.verify is False:
        http["allow_invalid_certificates"] = True
    elif isinstance(options.verify, str):
        try:
            with open(options.verify, "rb") as file:
                http["root_certificate"] = file.read()
        except OSError as e:
            raise InvalidInputError(f"storage option verify: {e.strerror}", path=options.verify) from e
    return {**http, **options.client_options}


def _of_s3(bucket: str, options: RemoteOptions) -> dict[str, Any]:
    config: Any = dict(options.config)
    endpoint = options.endpoint()
    config.pop("endpoint", None)
    path_style = options.path_style if options.path_style is not None else bool(endpoint) or "." in bucket
    if endpoint:
        parts = urlsplit(endpoint)
        url = endpoint.rstrip("/") if path_style else f"{parts.scheme}://{bucket}.{parts.netloc}"
        config[_ENDPOINT] = url
    config["virtual_hosted_style_request"] = not path_style
    provider = _credentials(options, config)
    if provider is not None:
        config = {k: v for k, v in config.items() if k not in ("access_key_id", "secret_access_key", "session_token")}
    region = config.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    # Signing needs some region; stores other than Amazon's take any.
    config["region"] = region or getattr(provider, "region", None) or "us-east-1"
    return {"config": config, "credential_provider": provider}


def _credentials(options: RemoteOptions, config: dict[str, Any]) -> Callable[[], Any] | None:
    """Return what gives S3 credentials; None where obstore finds them itself, in the environment or of a role."""
    if config.get("skip_signature"):
        return None
    if "access_key_id" in config:
        # Not as settings: a token of the environment, which belongs to other keys, would be sent with them.
        given = {"access_key_id": config["access_key_id"], "secret_access_key": config["secret_access_key"]}
        fixed = {**given, "token": config.get("session_token"), "expires_at": None}
        return lambda: fixed
    wanted = options.profile or os.environ.get("AWS_PROFILE")
    files = [os.environ.get("AWS_SHARED_CREDENTIALS_FILE"), os.environ.get("AWS_CONFIG_FILE"), *_PROFILES]
    if not wanted and (
        any(os.environ.get(name) for name in _ROLES)
        or not any(os.path.exists(os.path.expanduser(f)) for f in files if f)
    ):
        return None
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        if not wanted:
            return None
        raise InvalidInputError(
            f"the profile {wanted!r} of ~/.aws is read by boto3: pip install 'lakeidx[aws]', or set key and secret"
        ) from None
    try:
        session = boto3.Session(profile_name=wanted)
        if session.get_credentials() is None and not wanted:
            return None
        provider: Any = Boto3CredentialProvider(session, ttl=_PROFILE_LIFE)
        provider.region = session.region_name
    except (BotoCoreError, ValueError) as e:
        raise InvalidInputError(f"the profile {wanted or 'default'!r} of ~/.aws gives no credentials: {e}") from e
    else:
        return provider  # type: ignore[no-any-return]
