"""Reads jobs for commands, and turns errors of the API server into messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.cli.exits import PEOPLE, Refusal
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import (
    Forbidden,
    KubeError,
    NotFound,
    ServerUnreachable,
    Unauthorized,
)

PLURAL = RemedyOperationJob.resource.plural
READ_VERBS = ("get", "list", "watch")
WRITER_ROLES = {"patch": "kubenode-approver"}
WRITER = "kubenode-operator"
DENIED = "denied the request: "


class Unsigned(Refusal):
    """The webhook that notes the author of an approval did not answer, so nothing was written."""


async def read_job(kube: Kube, name: str) -> dict[str, Any]:
    """Return a job as stored. Raises Refusal if it does not exist or the caller may not read it."""
    with refusals("get", name):
        job: dict[str, Any] = await kube.get(paths.custom(PLURAL, name))
        return job


@contextmanager
def refusals(verb: str, name: str) -> Iterator[None]:
    """Turn errors of the API server into a Refusal that says what to do.

    verb: the RBAC verb of the request.
    """
    try:
        yield
    except NotFound as error:
        text = f"there is no job {name}; `kubenode job list` lists those that are"
        raise Refusal(text) from error
    except Forbidden as error:
        role = "kubenode-viewer" if verb in READ_VERBS else WRITER_ROLES.get(verb, WRITER)
        text = f"you may not {verb} {PLURAL}.kubenode.io: {error.message}; ClusterRole {role} of"
        text += f" {PEOPLE} has it"
        raise Refusal(text) from error
    except (Unauthorized, ServerUnreachable):
        raise
    except KubeError as error:
        raise _refused(error) from error


def _refused(error: KubeError) -> Refusal:
    if DENIED in error.message:
        return Refusal(error.message.partition(DENIED)[2])
    if "failed calling webhook" in error.message:
        return Unsigned(
            "the API server takes no word without a name, and what signs words did not answer: is"
            f" the remedy operator up, with --webhook-port? ({error.message})"
        )
    return Refusal(f"the API server refused it: {error.message or error}")
