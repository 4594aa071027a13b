"""Write a person's pause or resume to the DefenderPolicies of a cluster.

Without a policy's name all policies are changed, so that nothing is left out. Only `spec.pauses` is
read and written, so a policy that this version cannot read is paused as well. After a conflict the
edit is computed again from the current pauses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from defender.decision.pauses import Edit, PausedScope, TooManyPauses, paused, resumed
from kubenode.api.v1alpha1 import DefenderPolicy, default_policy
from kubenode.api.v1alpha1.defenderpolicy import Pause
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, Conflict, NotFound

TRIES = 8
"""Attempts to write a policy that others change at the same time."""
POLICIES = paths.custom(DefenderPolicy.resource.plural)
Change = Callable[[list[Pause]], Edit]


@dataclass(frozen=True, slots=True)
class PauseEdit:
    """The result for one policy. `edit` is None if it could not be changed; `problem` says why."""

    policy: str
    edit: Edit | None
    problem: str = ""
    created: bool = False


async def pause(
    kube: Kube, wanted: Pause, now: datetime, policy: str | None = None
) -> list[PauseEdit]:
    """Pause in `policy`, or in all. If there is none, create `default` as Kube Defender would.

    Raises KubeError; NotFound if `policy` does not exist.
    """
    created = policy is None and await _ensure_policy(kube)
    done = await _each(kube, policy, lambda pauses: paused(pauses, wanted, now))
    return [PauseEdit(w.policy, w.edit, w.problem, created) for w in done]


async def resume(
    kube: Kube, scope: PausedScope | None, now: datetime, policy: str | None = None
) -> list[PauseEdit]:
    """End the pauses of `scope`, or all pauses for None, in `policy` or in all. Raises KubeError.

    A pause of the cluster also applies to a node and stays when the node's own pause ends.
    """
    return await _each(kube, policy, lambda pauses: resumed(pauses, scope, now))


async def _ensure_policy(kube: Kube) -> bool:
    if (await kube.get(POLICIES))["items"]:
        return False
    try:
        await kube.create(POLICIES, default_policy().to_dict())
    except AlreadyExists:
        return False  # Kube Defender has just created it
    return True


async def _each(kube: Kube, policy: str | None, change: Change) -> list[PauseEdit]:
    if policy is not None:
        return [await _edit_policy(kube, await kube.get(_path(policy)), change)]
    items = (await kube.get(POLICIES))["items"]
    return [await _edit_policy(kube, item, change) for item in items]


async def _edit_policy(kube: Kube, item: dict[str, Any], change: Change) -> PauseEdit:
    name = item["metadata"]["name"]
    for _ in range(TRIES):
        try:
            edit = change(pauses_of(item))
            if edit.changes:
                await kube.patch(_path(name), _patch(item, edit))
            return PauseEdit(name, edit)
        except ValidationError as error:
            why = error.errors()[0]
            return PauseEdit(name, None, f"spec.pauses: {why['msg']}: mend it by hand")
        except TooManyPauses as error:
            return PauseEdit(name, None, str(error))
        except Conflict:
            pass
        except NotFound:
            return PauseEdit(name, None, "was deleted meanwhile")
        try:
            item = await kube.get(_path(name))
        except NotFound:
            return PauseEdit(name, None, "was deleted meanwhile")
    return PauseEdit(name, None, "somebody else keeps writing it: try again")


_pauses = TypeAdapter(list[Pause])


def pauses_of(item: dict[str, Any]) -> list[Pause]:
    """Return the pauses of a DefenderPolicy as the server sent it. Raises ValidationError."""
    return _pauses.validate_python(item["spec"].get("pauses") or [], extra="ignore")


def _patch(item: dict[str, Any], edit: Edit) -> dict[str, Any]:
    written = [pause.to_dict() for pause in edit.pauses]
    version = item["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version}, "spec": {"pauses": written}}


def _path(name: str) -> str:
    return paths.custom(DefenderPolicy.resource.plural, name)
