"""Probes a member: four small reads, none of a whole list. `read_member` does I/O, the rest not."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from captain.members.client import PLURALS
from kubenode.api.v1alpha1.membercluster import PAYLOAD_KINDS
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound

GROUP_PATH = f"/apis/{paths.GROUP}/{paths.VERSION}"
RULES_PATH = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
MACHINES = "machines"
VERSION_LENGTH = 64
PAYLOAD_VERBS = ("get", "list", "watch", "create", "patch", "update", "delete")
"""Rights that Captain needs on each payload kind."""


class MemberServerVersion(msgspec.Struct, rename="camel"):
    git_version: str = ""


class ServedKind(msgspec.Struct):
    name: str = ""
    kind: str = ""


class ServedResources(msgspec.Struct):
    resources: list[ServedKind] = []


class CountMetadata(msgspec.Struct, rename="camel"):
    remaining_item_count: int | None = None
    more: str = msgspec.field(default="", name="continue")


class CountedList(msgspec.Struct):
    """The first page of a list, of which only the length matters."""

    items: list[msgspec.Raw] | None = None
    metadata: CountMetadata = msgspec.field(default_factory=CountMetadata)


class ResourceRule(msgspec.Struct, rename="camel"):
    verbs: list[str] = []
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None


class RulesStatus(msgspec.Struct, rename="camel"):
    resource_rules: list[ResourceRule] | None = None
    incomplete: bool = False


class RulesReview(msgspec.Struct):
    status: RulesStatus


@dataclass(frozen=True, slots=True)
class MemberProbeResult:
    """What a probe observed.

    kinds: payload kinds that the member serves.
    machines: number of Machines, None if unknown.
    missing_rights: rights that Captain lacks, such as "patch noderemediers".
    """

    version: str
    kinds: tuple[str, ...]
    machines: int | None
    missing_rights: tuple[str, ...] = ()


async def read_member(kube: Kube) -> MemberProbeResult:
    """Read what a MemberCluster shows. Raises KubeError."""
    version = await kube.get("/version", msgspec.json.Decoder(MemberServerVersion).decode)
    served = await _read_served(kube)
    machines = await _count_machines(kube) if MACHINES in {each.name for each in served} else None
    kinds = find_kinds(served)
    return MemberProbeResult(
        clean_version(version.git_version), kinds, machines, await _find_missing(kube, kinds)
    )


async def _read_served(kube: Kube) -> Sequence[ServedKind]:
    try:
        answer = await kube.get(GROUP_PATH, msgspec.json.Decoder(ServedResources).decode)
    except NotFound:
        return ()
    return answer.resources


async def _count_machines(kube: Kube) -> int | None:
    decode = msgspec.json.Decoder(CountedList).decode
    return count_items(await kube.get(paths.custom(MACHINES), decode, {"limit": 1}))


async def _find_missing(kube: Kube, kinds: Iterable[str]) -> tuple[str, ...]:
    """Return the rights that Captain lacks; none if the member does not say."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"},
    }
    try:
        review = await kube.create(RULES_PATH, body, msgspec.json.Decoder(RulesReview).decode)
    except (Forbidden, NotFound):
        return ()
    if review.status.incomplete:
        return ()
    return find_missing_rights(review.status.resource_rules or (), kinds)


def clean_version(text: str) -> str:
    """Return the version as a short printable text: a member can answer with any."""
    return "".join(c for c in text if c.isprintable())[:VERSION_LENGTH]


def find_kinds(served: Iterable[ServedKind]) -> tuple[str, ...]:
    there = {(each.name, each.kind) for each in served}
    return tuple(kind for kind in PAYLOAD_KINDS if (PLURALS[kind], kind) in there)


def count_items(page: CountedList) -> int | None:
    """Return the length of the list whose first page this is, None if the server does not say."""
    remaining = page.metadata.remaining_item_count
    if remaining is None:
        return None if page.metadata.more else len(page.items or ())
    return len(page.items or ()) + max(remaining, 0)


def find_missing_rights(rules: Iterable[ResourceRule], kinds: Iterable[str]) -> tuple[str, ...]:
    """Return the rights on payload kinds that no rule grants, as "verb plural"."""
    rules = [rule for rule in rules if not rule.resource_names]
    needed = ((verb, PLURALS[kind]) for kind in kinds for verb in PAYLOAD_VERBS)
    return tuple(
        f"{verb} {plural}"
        for verb, plural in needed
        if not any(_grants(rule, verb, plural) for rule in rules)
    )


def _grants(rule: ResourceRule, verb: str, plural: str) -> bool:
    pairs = ((verb, rule.verbs), (paths.GROUP, rule.api_groups), (plural, rule.resources))
    return all(value in (given or ()) or "*" in (given or ()) for value, given in pairs)
