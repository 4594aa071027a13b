"""A Transport over the official package: kubeconfig, exec plugins, in-cluster, TLS, proxies.

From `kubernetes.aio` it uses the reading of credentials, TLS and the connection pool. Requests go
straight to the package's aiohttp session: `ApiClient.call_api` expects bodies as dicts, turns a
PATCH with a dict into a strategic merge patch, and copies every body twice.

The package reads tokens of exec plugins and `tokenFile` once, and they expire. `reload` builds
everything again, including client certificates.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.aio.config.kube_config import KubeConfigLoader, KubeConfigMerger

from kubenode.runtime.kube.client import Kube, RequestMeter
from kubenode.runtime.kube.outage import Outage
from kubenode.runtime.kube.transport import (
    ApiConnection,
    CredentialsError,
    CredentialsTransport,
    Response,
)
from kubenode.runtime.process import CannotStart

log = logging.getLogger(__name__)

DEFAULT_KUBECONFIG = "~/.kube/config"
SERVICE_HOST = "KUBERNETES_SERVICE_HOST"

# Exceptions of the package for malformed input, besides its own.
_BROKEN = (
    ConfigException,
    yaml.YAMLError,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
)


class KubeconfigError(CannotStart, CredentialsError):
    """Names the file (or where one was expected), what is wrong with it, and what to do."""


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    user_agent: str = "kubenode",
) -> CredentialsTransport:
    """Return a Transport for `kubeconfig`, else $KUBECONFIG, else ~/.kube/config, else in-cluster.

    The file is checked here, so that a person sees an error before anything starts. Plugins run and
    sockets open with the first request. Raises KubeconfigError.
    """
    paths = kubeconfig or os.environ.get("KUBECONFIG") or _default_file()
    if paths:
        return KubeconfigTransport(paths, context, user_agent)
    if SERVICE_HOST not in os.environ:
        raise KubeconfigError(
            f"no cluster to talk to: $KUBECONFIG is unset, {DEFAULT_KUBECONFIG} does not exist, and"
            f" this is no pod (${SERVICE_HOST} is unset); name a file with --kubeconfig"
        )
    if context:
        raise KubeconfigError(f"--context {context} needs a kubeconfig; name it with --kubeconfig")
    return InClusterTransport(user_agent)


def describe_target(kubeconfig: str | None = None, context: str | None = None) -> str:
    """Describe the cluster to which `connect` connects: context, server and file.

    Raises KubeconfigError.
    """
    paths = kubeconfig or os.environ.get("KUBECONFIG") or _default_file()
    if not paths:
        return "the cluster of this pod"
    _check(paths, context)
    config = KubeConfigMerger(paths).config  # type: ignore[no-untyped-call]
    current = KubeConfigLoader(config, context).current_context  # type: ignore[no-untyped-call]
    cluster = config["clusters"].get_with_name(current["context"]["cluster"])["cluster"]
    return f"context {current['name']} ({cluster['server']}, kubeconfig {paths})"


@dataclass(frozen=True, slots=True)
class KubeconfigEndpoint:
    """The API server that a kubeconfig names.

    authority: PEM of the certificate authority, "" for those of the system.
    server_name: name in the certificate, "" for the host of the URL.
    verified: False if the kubeconfig skips the verification of the certificate.
    """

    server: str
    authority: str
    server_name: str
    verified: bool


async def read_endpoint(
    kubeconfig: str | None = None, context: str | None = None
) -> KubeconfigEndpoint:
    """Return the API server to which `connect` connects. Raises KubeconfigError."""
    paths = kubeconfig or os.environ.get("KUBECONFIG") or _default_file()
    if not paths:
        raise KubeconfigError("no kubeconfig; name a file with --kubeconfig or set KUBECONFIG")
    _check(paths, context)
    configuration = type.__call__(Configuration)
    try:
        await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=paths,
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
        file = configuration.ssl_ca_cert
        authority = await asyncio.to_thread(Path(file).read_text) if file else ""
    except _BROKEN as error:
        raise _unusable(paths, error) from error
    name = configuration.tls_server_name or ""
    return KubeconfigEndpoint(configuration.host, authority, name, bool(configuration.verify_ssl))


def connect_as(
    token: str, kubeconfig: str | None = None, context: str | None = None
) -> CredentialsTransport:
    """Return a Transport to the same server as `connect`, authenticated by `token` alone."""
    paths = kubeconfig or os.environ.get("KUBECONFIG") or _default_file()
    return BearerTransport(token, paths or None, context, "kubenode-dashboard")


def _default_file() -> str | None:
    path = Path(DEFAULT_KUBECONFIG).expanduser()
    return str(path) if path.is_file() else None


class KubeconfigTransport(CredentialsTransport):
    """A Transport with the credentials of a kubeconfig. `paths` may be several, joined by `:`."""

    def __init__(self, paths: str, context: str | None, user_agent: str) -> None:
        super().__init__()
        self._paths, self._context, self._user_agent = paths, context, user_agent
        self._plugin = _check(paths, context)

    async def connect(self) -> ApiConnection:
        configuration = type.__call__(Configuration)
        try:
            await load_kube_config(  # type: ignore[no-untyped-call]
                config_file=self._paths,
                context=self._context,
                client_configuration=configuration,
                persist_config=False,
            )
        except _BROKEN as error:
            raise _unusable(self._paths, error) from error
        # The package logs a failing plugin and goes on without credentials. The server would refuse
        # each anonymous request, without a hint at the plugin.
        if self._plugin and not (configuration.api_key or configuration.cert_file):
            raise KubeconfigError(
                f"kubeconfig {self._paths}: the exec plugin {self._plugin!r} gave no credentials;"
                " run it by hand to see why"
            )
        return _connection(configuration, self._user_agent, self._paths)


class BearerTransport(CredentialsTransport):
    """A Transport to the same server with a person's `token`, and none of our own credentials."""

    def __init__(self, token: str, paths: str | None, context: str | None, user_agent: str) -> None:
        super().__init__()
        self._token, self._user_agent = token, user_agent
        self._paths, self._context = paths, context

    async def connect(self) -> ApiConnection:
        configuration = type.__call__(Configuration)
        try:
            if self._paths:
                await load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=self._paths,
                    context=self._context,
                    client_configuration=configuration,
                    persist_config=False,
                )
            else:
                load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        except _BROKEN as error:
            raise KubeconfigError(f"the API server's address cannot be read: {error}") from error
        # A client certificate would take precedence over the token.
        configuration.cert_file = configuration.key_file = None
        configuration.username = configuration.password = None
        configuration.api_key_prefix, configuration.refresh_api_key_hook = {}, None
        configuration.api_key = {"BearerToken": f"Bearer {self._token}"}
        return _connection(configuration, self._user_agent, "a person's token")


class InClusterTransport(CredentialsTransport):
    """A Transport with the service account of this pod. Its token is read again every 60 s."""

    def __init__(self, user_agent: str) -> None:
        super().__init__()
        self._user_agent = user_agent

    async def connect(self) -> ApiConnection:
        configuration = type.__call__(Configuration)
        try:
            load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        except _BROKEN as error:
            raise KubeconfigError(
                f"in-cluster credentials: {error}; is automountServiceAccountToken off?"
            ) from error
        return _connection(configuration, self._user_agent, "in-cluster credentials")


def _check(paths: str, context: str | None) -> str | None:
    """Check that the files name a server; return the exec plugin's command, None without one."""
    files = [Path(path).expanduser() for path in paths.split(":") if path]
    if not any(file.is_file() for file in files):
        raise KubeconfigError(f"kubeconfig {paths}: no such file; check --kubeconfig")
    try:
        config = KubeConfigMerger(paths).config  # type: ignore[no-untyped-call]
        loader = KubeConfigLoader(config, context)  # type: ignore[no-untyped-call]
        current = loader.current_context
        cluster = config["clusters"].get_with_name(current["context"]["cluster"])["cluster"]
        server = cluster["server"]
        user = config["users"].get_with_name(current["context"].get("user"), safe=True)
        plugin = user["user"].safe_get("exec") if user else None
    except _BROKEN as error:
        raise _unusable(paths, error) from error
    if not str(server).startswith(("http://", "https://")):
        raise KubeconfigError(f"kubeconfig {paths}: server {server!r} is no URL; use https://…")
    return str(plugin.get("command")) if plugin else None


def _unusable(paths: str, error: Exception) -> KubeconfigError:
    text = str(error) or type(error).__name__
    return KubeconfigError(
        f"kubeconfig {paths} is not usable: {text};"
        f" `kubectl --kubeconfig {paths} config view` should show a context, cluster and user"
    )


def _connection(configuration: Any, user_agent: str, source: str) -> ApiConnection:
    # CPython 3.13 began to refuse authorities without a key identifier, which clusters still have.
    # Signature, name, purpose and dates are verified as before.
    configuration.disable_strict_ssl_verification = True
    configuration.retries = None  # it would retry PUT and DELETE as well
    configuration.client_session_kwargs = {"trust_env": False, "response_class": Response}
    try:
        rest = RESTClientObject(configuration)
    except OSError as error:  # ssl.SSLError is one
        raise KubeconfigError(f"{source}: TLS files cannot be loaded: {error}") from error
    session = rest._create_pool_manager()
    options: dict[str, Any] = {}
    if configuration.tls_server_name:
        options["server_hostname"] = configuration.tls_server_name
    if configuration.proxy:
        options["proxy"] = configuration.proxy
        options["proxy_headers"] = configuration.proxy_headers

    async def headers() -> Mapping[str, str]:
        settings = await configuration.auth_settings()
        given = {str(s["key"]): str(s["value"]) for s in settings.values() if s["value"]}
        return {"User-Agent": user_agent, **given}

    return ApiConnection(configuration.host, session, headers, options)


def clients(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    user_agent: str = "kubenode",
    meter: RequestMeter | None = None,
    lease_meter: RequestMeter | None = None,
    **options: Any,
) -> tuple[Kube, Kube]:
    """Return a client for everything else and one for the Lease, each with its own connections.

    They share an Outage, so the lease's frequent requests wake informers that back off. `options`
    go to the first Kube. Raises KubeconfigError.
    """
    outage = Outage()
    main = connect(kubeconfig, context, user_agent=user_agent)
    lease = connect(kubeconfig, context, user_agent=f"{user_agent}-lease")
    return (
        Kube(main, outage=outage, meter=meter, **options),
        Kube(lease, outage=outage, meter=lease_meter, timeout=5.0, attempts=1),
    )
