"""Stores the last good version of each rule so that it outlives our restart.

There is one apps/v1 ControllerRevision per good version, in the operator's namespace, owned by the
NodeRemedier, so it is deleted with the rule. Its name derives from the rule's UID and generation,
so writing it twice is idempotent. Only the newest two stay. They are read once, before the first
load.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from kubenode.api.base import API_VERSION
from kubenode.api.meta import ObjectMeta
from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.noderemedier import NodeRemedierSpec
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, NotFound
from kubenode.runtime.kube.lists import items

log = logging.getLogger(__name__)

CONTROLLER = "rule-revisions"
MOST_REVISIONS = 2
"""Good versions per rule: the last one, and the one before for a person to read."""
LABEL, GOOD = "kubenode.io/keeps", "last-good-rule"
RULE_LABEL = "kubenode.io/rule-uid"


@dataclass(frozen=True, slots=True)
class Stored:
    """A revision at the API server."""

    name: str
    generation: int


class Revisions:
    """Stores and reads revisions. `good` returns the loaded version of a rule to store, by name;
    None for none.
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        fence: Fence,
        good: Callable[[str], NodeRemedier | None] = lambda name: None,
    ) -> None:
        self._kube, self._namespace, self._fence = kube, namespace, fence
        self.good = good
        self._stored: dict[str, list[Stored]] = {}
        """Stored revisions by UID of the rule."""
        self._uids: dict[str, str] = {}

    async def read(self) -> dict[str, NodeRemedier]:
        """Return the newest good version of each rule, by the rule's UID. Raises KubeError."""
        newest: dict[str, NodeRemedier] = {}
        self._stored.clear()
        async for item in items(self._kube, self._path(), selector=f"{LABEL}={GOOD}"):
            self._listed(item, newest)
        return newest

    def _listed(self, item: Mapping[str, Any], newest: dict[str, NodeRemedier]) -> None:
        meta = item["metadata"]
        uid, generation = (meta.get("labels") or {}).get(RULE_LABEL, ""), item.get("revision", 0)
        self._stored.setdefault(uid, []).append(Stored(meta["name"], generation))
        try:
            rule = rule_of(item)
        except (ValidationError, KeyError, TypeError) as error:
            why = str(error).splitlines()[0]
            log.warning("kept rule cannot be read", extra={"revision": meta["name"], "why": why})
            return
        if uid not in newest or newest[uid].metadata.generation < generation:
            newest[uid] = rule

    async def reconcile(self, name: str) -> Result:
        """Store the good version of one rule, and delete the oldest ones."""
        rule = self.good(name)
        if rule is None:  # the server deletes its revisions too
            self._stored.pop(self._uids.pop(name, ""), None)
            return DONE
        self._uids[name] = rule.metadata.uid
        there = self._stored.setdefault(rule.metadata.uid, [])
        if all(revision.generation != rule.metadata.generation for revision in there):
            await self._create(rule)
            there.append(Stored(name_of(rule), rule.metadata.generation))
        there.sort(key=lambda revision: revision.generation)
        while len(there) > MOST_REVISIONS:
            await self._delete(there[0].name)
            there.pop(0)
        return DONE

    async def _create(self, rule: NodeRemedier) -> None:
        self._fence.check()
        try:
            await self._kube.create(self._path(), body_of(rule, self._namespace))
        except AlreadyExists:
            return  # written before our restart, or by an earlier leader

    async def _delete(self, name: str) -> None:
        self._fence.check()
        try:
            await self._kube.delete(self._path(name))
        except NotFound:
            return

    def _path(self, name: str | None = None) -> str:
        return paths.resource(
            "/apis/apps/v1", "controllerrevisions", namespace=self._namespace, name=name
        )


def name_of(rule: NodeRemedier) -> str:
    """Return the name of the revision: at most 253 characters, the same for the same version."""
    meta = rule.metadata
    digest = hashlib.sha256(f"{meta.uid}/{meta.generation}".encode()).hexdigest()[:10]
    return f"{meta.name[:230].rstrip('.-')}-{digest}"


def body_of(rule: NodeRemedier, namespace: str) -> dict[str, Any]:
    meta = rule.metadata
    owner = {
        "apiVersion": API_VERSION,
        "kind": "NodeRemedier",
        "name": meta.name,
        "uid": meta.uid,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name_of(rule),
            "namespace": namespace,
            "labels": {LABEL: GOOD, RULE_LABEL: meta.uid},
            "ownerReferences": [owner],
        },
        "revision": meta.generation,
        "data": {"name": meta.name, "spec": rule.spec.to_dict()},
    }


def rule_of(item: Mapping[str, Any]) -> NodeRemedier:
    """Return the stored rule. Raises ValidationError, KeyError or TypeError for an invalid
    revision.
    """
    meta, data = item["metadata"], item["data"]
    return NodeRemedier(
        metadata=ObjectMeta(
            name=data["name"], uid=meta["labels"][RULE_LABEL], generation=item["revision"]
        ),
        spec=NodeRemedierSpec.model_validate(data["spec"], extra="ignore"),
    )
