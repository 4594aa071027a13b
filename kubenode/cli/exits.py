"""How a command ends: exit codes, and errors told as a sentence with what to do.

0 fine, 1 finding or refusal, 2 usage, 3 cluster unreachable. A traceback is for our own mistakes
only; what a person can put right is one line on standard error.
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


class Exit(IntEnum):
    FINE = 0
    FINDING = 1
    USAGE = 2
    UNREACHABLE = 3


class Refusal(CannotStart):
    """The command cannot do what was asked; `code` says of which kind that is."""

    def __init__(self, text: str, code: Exit = Exit.FINDING) -> None:
        super().__init__(text)
        self.code = code


def say(text: str) -> None:
    """To the person, beside whatever a program reads from standard output."""
    sys.stderr.write(f"kubenode: {text}\n")


def run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, ending the process with a sentence where a person can help."""
    with explained():
        return asyncio.run(work)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn errors that a person can put right into their sentence and exit code."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except (CannotStart, KubeError, CredentialsError, LeaseLost, ExceptionGroup) as error:
        explanations = [_explain_error(cause) for cause in causes(error)]
        known = [t for t in explanations if t is not None]
        if not known or len(known) < len(explanations):
            raise  # a mistake of ours is among them: show all of it
        for text, _ in dict.fromkeys(known):
            say(text)
        raise SystemExit(max(code for _, code in known)) from None


def _explain_error(error: BaseException) -> tuple[str, Exit] | None:
    """The sentence and code of an error, None if it is nothing that a person can put right."""
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
            return f"a right is missing: {error}; see docs/reference for the roles", Exit.FINDING
        case _:
            return None
