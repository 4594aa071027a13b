"""Reads the providers of machines from the file that `--providers-file` names.

The file is a list. The first provider that knows a machine is used:

    - type: aws
      region: eu-west-1
    - type: redfish
      within: [10.8.0.0/16]
      usernameFile: /etc/kubenode/bmc/username
      passwordFile: /etc/kubenode/bmc/password
"""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from kubenode.api.base import Model
from kubenode.api.problems import field_path, list_problems
from kubenode.cli.documents import UnreadableDocument, YamlDocument, read
from kubenode.cli.exits import Exit, Refusal
from kubenode.providers.events import Sources
from kubenode.providers.instances import InstanceProviders, Instances
from kubenode.providers.local.instances import LocalInstances
from kubenode.providers.local.power import Local
from kubenode.providers.metered_instances import InstanceMetrics, MeteredInstances
from kubenode.providers.port import Provider
from kubenode.providers.registry import Providers
from kubenode.providers.request_metrics import Metered, ProviderMetrics
from kubenode.providers.settings import MODELS, LocalSettings, Maker
from kubenode.providers.threaded_instances import BlockingInstances, ThreadedInstances
from kubenode.providers.threads import Blocking, Threaded
from kubenode.runtime.clock import Clock

CLASSES = {
    "aws": "kubenode.providers.aws.power:Aws",
    "azure": "kubenode.providers.azure.power:Azure",
    "alibaba": "kubenode.providers.alibaba.power:Alibaba",
    "gcp": "kubenode.providers.gcp.power:Gcp",
    "redfish": "kubenode.providers.redfish.power:Redfish",
}
MAKERS = {
    "aws": "kubenode.providers.aws.instances:AwsInstances",
    "azure": "kubenode.providers.azure.instances:AzureInstances",
    "alibaba": "kubenode.providers.alibaba.instances:AlibabaInstances",
}
EVENTS = {
    "aws": "kubenode.providers.aws.events",
    "azure": "kubenode.providers.azure.events",
    "alibaba": "kubenode.providers.alibaba.events",
    "gcp": "kubenode.providers.gcp.events",
}
"""Modules are imported only when a provider is configured: each needs a large, optional SDK."""

NO_SECRETS = (
    "is no field: write no secrets into this file; docs/providers.md says where each provider"
    " finds its credentials"
)
_SECRET = re.compile(r"(?i)secret|token|password$|passwd|access_?key|credential")


@dataclass(frozen=True, slots=True)
class Configured:
    """One entry of the file.

    where: its place, for messages.
    """

    settings: Model
    type: str
    where: str


@asynccontextmanager
async def provided(
    path: str | None, clock: Clock, registry: CollectorRegistry
) -> AsyncIterator[Providers | None]:
    """Yield the providers of the file and close them at the end; None without a file.

    Raises Refusal.
    """
    if path is None:
        yield None
        return
    metrics = ProviderMetrics(registry)
    providers = Providers(
        [Metered(built(entry, clock), metrics, clock) for entry in configured(Path(path))]
    )
    try:
        yield providers
    finally:
        await providers.close()


@asynccontextmanager
async def made_by(
    path: str | None, clock: Clock, registry: CollectorRegistry
) -> AsyncIterator[InstanceProviders]:
    """Yield the providers of the file that make machines, and close them at the end.

    Raises Refusal.
    """
    metrics = InstanceMetrics(registry)
    makers = [maker(entry) for entry in configured(Path(path))] if path is not None else []
    instances = InstanceProviders(
        [MeteredInstances(provider, metrics, clock) for provider in makers if provider is not None]
    )
    try:
        yield instances
    finally:
        await instances.close()


@asynccontextmanager
async def listened(path: str | None, clock: Clock) -> AsyncIterator[Sources]:
    """Yield the event sources of the file, and close them at the end. Raises Refusal."""
    sources = Sources()
    for entry in configured(Path(path)) if path is not None else ():
        sources += event_sources(entry, clock)
    try:
        yield sources
    finally:
        await sources.close()


def check_file(path: str | None) -> None:
    """Raise Refusal if the file is invalid. None is valid."""
    if path is not None:
        configured(Path(path))


def configured(path: Path) -> list[Configured]:
    """Parse and validate the file. Raises Refusal with one line for each problem."""
    try:
        documents = list(read(path))
    except UnreadableDocument as error:
        raise Refusal(str(error), Exit.USAGE) from error
    if len(documents) != 1 or not isinstance(documents[0].data, list):
        raise Refusal(
            f"{path}: must be one YAML list of providers, such as `- {{type: aws, region: "
            "eu-west-1}`",
            Exit.USAGE,
        )
    wrong: list[str] = []
    entries = [
        _entry(documents[0], number, entry, wrong) for number, entry in enumerate(documents[0].data)
    ]
    wrong += _twice([entry for entry in entries if entry is not None])
    if wrong:
        raise Refusal("\n".join(wrong), Exit.USAGE)
    if not entries:
        raise Refusal(f"{path}: names no provider: add one, or leave the file out", Exit.USAGE)
    return [entry for entry in entries if entry is not None]


def built(entry: Configured, clock: Clock) -> Provider:
    """Create the provider without calling it. Raises Refusal if its SDK is not installed."""
    if isinstance(entry.settings, LocalSettings):
        local = entry.settings
        return Local(local.arguments, prefix=local.prefix, timeout=local.timeout, clock=clock)
    module, _, name = CLASSES[entry.type].partition(":")
    made: Callable[[Any, Clock], Blocking] = getattr(_sdk(entry, module), name)
    return Threaded(made(entry.settings, clock), clock)


def maker(entry: Configured) -> Instances | None:
    """Create what makes the provider's machines, without calling it; None if it makes none.

    Raises Refusal if its SDK is not installed.
    """
    if isinstance(entry.settings, LocalSettings):
        local = entry.settings
        return LocalInstances(
            local.arguments, name=local.name, prefix=local.prefix, timeout=local.timeout
        )
    if not isinstance(entry.settings, Maker):
        return None
    module, _, name = MAKERS[entry.type].partition(":")
    made: Callable[[Any], BlockingInstances] = getattr(_sdk(entry, module), name)
    return ThreadedInstances(made(entry.settings), entry.settings.name)


def event_sources(entry: Configured, clock: Clock) -> Sources:
    """Create the event sources of an entry; empty without a section `events`.

    Raises Refusal if the SDK is not installed.
    """
    if entry.type not in EVENTS or getattr(entry.settings, "events", None) is None:
        return Sources()
    made: Callable[[Any, Clock], Sources] = _sdk(entry, EVENTS[entry.type]).sources
    return made(entry.settings, clock)


def _sdk(entry: Configured, module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("kubenode"):
            raise
        raise Refusal(
            f"{entry.where}: provider {entry.type} needs {error.name}, which is not installed:"
            f' run `pip install "kubenode[{entry.type}]"`'
        ) from error


def _entry(document: YamlDocument, number: int, data: Any, wrong: list[str]) -> Configured | None:
    where = document.where((number,))
    kind = data.get("type") if isinstance(data, dict) else None
    model = MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        known = ", ".join(MODELS)
        at = document.where((number, "type"))
        wrong.append(f"{at}: [{number}].type: {kind!r} is no provider: write one of {known}")
        return None
    try:
        return Configured(model.model_validate(data), str(kind), where)
    except ValidationError as error:
        for problem in list_problems(error, model):
            path = (number, *problem.path)
            # A password that was written here by mistake must not be logged.
            secret = _SECRET.search(str(problem.path[-1])) if problem.path else None
            text = NO_SECRETS if secret else problem.text
            wrong.append(f"{document.where(path)}: {field_path(path)}: {text}")
        return None


def _twice(entries: list[Configured]) -> list[str]:
    """List names that several entries have: a MachineClass refers to a provider by name."""
    wrong: list[str] = []
    known: dict[str, str] = {}
    for entry in entries:
        name = entry.settings.name if isinstance(entry.settings, Maker) else ""
        if name and name in known:
            wrong.append(
                f"{entry.where}: name: {name!r} is that of {known[name]} too: choose another"
            )
        known.setdefault(name, entry.where)
    return wrong
