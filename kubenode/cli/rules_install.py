"""`kubenode rules install`: installs rules of the library into a cluster, pack by pack.

New rules are in mode DryRun unless another mode is requested, and installed rules keep their mode.
A rule that a person changed is never overwritten, nor a rule of the same name from another source.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer

from kubenode.api.v1alpha1 import API_VERSION, Mode, NodeRemedier
from kubenode.api.v1alpha1.leaves import FactLeaf
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit
from kubenode.cli.library import packs
from kubenode.cli.rules_packs import DIGEST, PACK, changed, chosen, digest
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from remedy.job.model import ACTING
from remedy.job.steps.table import unsupported

TRIES = 5
DEFAULT = Mode.DRY_RUN
WEBHOOK = "admission webhook"
"""Text of a 403 response by which a webhook refused the object.

Other 403 responses mean a missing right.
"""


async def install(
    wanted: Sequence[str],
    kubeconfig: str | None,
    context: str | None,
    *,
    mode: Mode | None,
    dry_run: bool,
) -> Exit:
    """Print a line for each rule. Return FINDING if one could not be installed as it ships.

    mode: None: DryRun for new rules, and installed rules keep theirs.
    dry_run: the API server and its webhooks validate, and nothing is written.
    """
    rules = chosen(wanted)
    failed = False
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        for pack, some in rules.items():
            for rule in some:
                what, fine = await _install(kube, rule, pack, mode, dry_run)
                failed |= not fine
                suffix = " (dry run)" if dry_run else ""
                typer.echo(f"{pack or 'library'}/{rule.metadata.name} {what}{suffix}")
    for warning in warnings(rules, mode or DEFAULT):
        typer.echo(f"kubenode: {warning}", err=True)
    return Exit.FINDING if failed else Exit.FINE


async def _install(
    kube: Kube, rule: NodeRemedier, pack: str, mode: Mode | None, dry_run: bool
) -> tuple[str, bool]:
    """Install one rule. Return what was done, and whether the cluster has the rule as it ships."""
    query = {"dryRun": "All"} if dry_run else None
    for _ in range(TRIES):
        try:
            return await _once(kube, rule, pack, mode, query)
        except (Conflict, NotFound, AlreadyExists):
            continue  # it was written, deleted or created meanwhile: read it again
        except (BadRequest, Invalid) as error:
            return f"refused: {error.message or error}", False
        except Forbidden as error:
            if WEBHOOK not in error.message:
                raise  # a right is missing: no rule could be written
            return f"refused: {error.message}", False
    return "left alone: somebody else keeps writing it", False


async def _once(
    kube: Kube, rule: NodeRemedier, pack: str, mode: Mode | None, query: Mapping[str, str] | None
) -> tuple[str, bool]:
    path = paths.custom(NodeRemedier.resource.plural, rule.metadata.name)
    try:
        live: dict[str, Any] = await kube.get(path)
    except NotFound:
        body = manifest(rule, pack, mode or DEFAULT)
        await kube.create(paths.custom(NodeRemedier.resource.plural), body, query=query)
        return f"created in mode {body['spec']['mode']}", True
    there = NodeRemedier.model_validate(live, extra="ignore")
    by_a_person = changed(there)
    if by_a_person is None:
        return "left alone: a rule of this name is there that is not of the library", False
    if by_a_person:
        return "left alone: a person changed it", False
    body = manifest(rule, pack, mode or there.spec.mode)
    if digest(there) == digest(rule) and there.spec.mode == body["spec"]["mode"]:
        return "unchanged", True
    live["spec"] = body["spec"]
    live["metadata"].setdefault("annotations", {}).update(body["metadata"]["annotations"])
    await kube.replace(path, live, query=query)
    return f"updated in mode {body['spec']['mode']}", True


def manifest(rule: NodeRemedier, pack: str, mode: Mode) -> dict[str, Any]:
    """Build the object to write.

    A rule that infers a fact does not act: it stays Enforce unless Off.
    """
    written = rule.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    own = rule.spec.infer is None or mode is Mode.OFF
    spec = written["spec"] | {"mode": (mode if own else Mode.ENFORCE).value}
    marks = {PACK: pack, DIGEST: digest(rule)}
    metadata = {"name": rule.metadata.name, "annotations": marks}
    if rule.metadata.labels:
        metadata["labels"] = dict(rule.metadata.labels)
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeRemedier",
        "metadata": metadata,
        "spec": spec,
    }


def warnings(rules: Mapping[str, Sequence[NodeRemedier]], mode: Mode = DEFAULT) -> Iterator[str]:
    """Yield warnings: rules that cannot act in `mode`, and inferred facts of rules that are
    missing.
    """
    inferred = {
        rule.spec.infer.fact: (pack, rule.metadata.name)
        for pack, some in packs().items()
        for rule in some
        if rule.spec.infer is not None
    }
    mine = {rule.metadata.name for some in rules.values() for rule in some}
    for pack, some in rules.items():
        for rule in some:
            if why := unsupported(rule.spec.ladder or []):
                yield f"{pack}/{rule.metadata.name} {_unavailable(mode)}: {why}"
            for fact in _facts(rule):
                of, name = inferred.get(fact, ("", ""))
                if name and name not in mine:
                    yield (
                        f"{pack}/{rule.metadata.name} reads {fact}, which rule {of}/{name} infers:"
                        f" install it too"
                    )


def _unavailable(mode: Mode) -> str:
    """Say what happens to a rule with an unsupported step in `mode`."""
    if mode in ACTING:
        return "will be refused by the operator"
    return "cannot act yet, in Enforce and Approve it will be refused"


def _facts(rule: NodeRemedier) -> list[str]:
    fact_names = (leaf.name for leaf in rule.spec.unwrap_leaves() if isinstance(leaf, FactLeaf))
    return list(dict.fromkeys(fact_names))
