"""Exit codes of commands, and errors as one sentence that says what to do.

0 is success, 1 a finding or refusal, 2 wrong usage, 3 an unreachable cluster. A traceback is
printed only for our own bugs; an error that a person can fix is one line on standard error.
"""

import asyncio
import contextlib
import sys
from collections.abc import Coroutine, Iterator
from enum import IntEnum
from typing import Any, TypeVar

from kubenode.runtime.fence import LeaseLost
from kubenode.runtime.kube.errors import Forbidden, KubeError, ServerUnreachable, Unauthorized
from kubenode.runtime.kube.transport import CredentialsError
from kubenode.runtime.process import CannotStart, causes
from kubenode.runtime.settings import SettingsError

T = TypeVar("T")
PEOPLE = "charts/kubenode/people.yaml"
GROUP_PATH = "/apis/kubenode.io/v1alpha1/"
VIEWED_PATHS = ("/api/v1/nodes", "/api/v1/events", "/apis/coordination.k8s.io/v1/")
OPERATED = (
    "remedyoperationjobs",
    "hostprobes",
    "defenderpolicies",
    "machinecomponentsets",
    "machines",
)
WRITER_ROLES = {
    ("PATCH", "remedyoperationjobs"): "kubenode-approver",
    ("PATCH", "machines"): "kubenode-machine-operator",
    ("POST", "machines"): "kubenode-machine-operator",
    ("DELETE", "machines"): "kubenode-machine-exporter",
}
"""Roles for writes that kubenode-operator is not the least role for, by method and resource."""


class Exit(IntEnum):
    FINE = 0
    FINDING = 1
    USAGE = 2
    UNREACHABLE = 3


class Refusal(CannotStart):
    """The command cannot do what was requested; `code` is its exit code."""

    def __init__(self, text: str, code: Exit = Exit.FINDING) -> None:
        super().__init__(text)
        self.code = code


def say(text: str) -> None:
    """Print a message on standard error: programs read standard output."""
    sys.stderr.write(f"kubenode: {text}\n")


def role_for(request: str) -> str:
    """Return which role of people.yaml has a right. request: method and path, "" if unknown."""
    method, _, path = request.partition(" ")
    resource = path.partition(GROUP_PATH)[2].partition("/")[0].partition("?")[0]
    if method == "GET" and (resource or path.startswith(VIEWED_PATHS)):
        role = "kubenode-viewer"
    elif method not in ("", "GET") and resource in OPERATED:
        role = WRITER_ROLES.get((method, resource), "kubenode-operator")
    else:
        return f"ask an administrator for it; {PEOPLE} has the roles of people"
    return f"ClusterRole {role} of {PEOPLE} has it"


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` as `asyncio.run` does. An error that a person can fix ends the process."""
    with explained():
        return asyncio.run(work)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn errors that a person can fix into a message and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except (CannotStart, KubeError, CredentialsError, LeaseLost, ExceptionGroup) as error:
        explanations = [_explain_error(cause) for cause in causes(error)]
        known = [t for t in explanations if t is not None]
        if not known or len(known) < len(explanations):
            raise  # one of the errors is a bug of ours: show everything
        for text, _ in dict.fromkeys(known):
            say(text)
        raise SystemExit(max(code for _, code in known)) from None


def _explain_error(error: BaseException) -> tuple[str, Exit] | None:
    """Return the message and exit code of an error, None for a bug of ours."""
    match error:
        case Refusal():
            return str(error), error.code
        case SettingsError() | CredentialsError():
            return str(error), Exit.USAGE
        case LeaseLost():
            return f"another process may lead now, so this one ends: {error}", Exit.FINDING
        case CannotStart():
            return str(error), Exit.FINDING
        case ServerUnreachable():
            return f"the cluster does not answer: {error}", Exit.UNREACHABLE
        case Unauthorized():
            text = f"the cluster refuses these credentials: {error}; renew them, or name others"
            return f"{text} with --kubeconfig or --context", Exit.UNREACHABLE
        case Forbidden():
            return f"a right is missing: {error}; {role_for(error.tried)}", Exit.FINDING
        case KubeError():
            return f"the API server did not do it: {error}", Exit.FINDING
        case _:
            return None
