"""Outcomes of what people do on a site, in words. Pure."""

from dataclasses import dataclass

from kubenode.runtime.kube.errors import (
    Forbidden,
    KubeError,
    NotFound,
    ServerUnreachable,
    Unauthorized,
)
from kubenode.runtime.site.people import Person


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """Outcome of an act. good: False if nothing was written; `text` then says why."""

    text: str
    good: bool = True


def describe_failure(error: KubeError, who: Person) -> str:
    match error:
        case Forbidden():
            return f"The API server does not let {who.name} do this: {error.message}"
        case Unauthorized():
            return "The API server does not know you any more: log in again."
        case NotFound():
            return "It is not there any more: somebody has deleted it."
        case ServerUnreachable():
            return (
                "The API server did not answer: it may have happened or not."
                " See below before you press again."
            )
        case _ if "failed calling webhook" in error.message:
            return (
                "Nothing was written: a word needs a name, and the webhook that signs words did not"
                " answer. Is the remedy operator up?"
            )
        case _:
            return f"The API server refused it: {error.message or error}"
