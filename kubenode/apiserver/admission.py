"""Hooks that see every write before it is stored, and may refuse it.

They stand in for the CEL rules of our CRDs: the pydantic models say the same in Python, and the
demo installs them here. A real server runs the CEL rules themselves, and tests compare both.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubenode.apiserver.errors import ApiError, Cause, Obj, invalid
from kubenode.apiserver.registry import Resource

Hook = Callable[[Obj, Obj | None], None]
"""hook(new, old): old is None when the object is created; raises ValueError to refuse the write.

The objects are those of the store: a hook reads them and changes nothing. A ValueError with an
`errors()` method (pydantic.ValidationError) names its fields.
"""


class Admission:
    """Hooks by qualified resource name, for example "noderemediers.kubenode.io"."""

    def __init__(self, hooks: Mapping[str, Hook | Sequence[Hook]] | None = None) -> None:
        self._hooks: dict[str, list[Hook]] = {}
        for qualified, given in (hooks or {}).items():
            for hook in [given] if callable(given) else given:
                self.add(qualified, hook)

    def add(self, qualified: str, hook: Hook) -> None:
        self._hooks.setdefault(qualified, []).append(hook)

    def review(self, resource: Resource, new: Obj, old: Obj | None) -> None:
        """Raises ApiError 422 with the first refusal; an ApiError of a hook passes as it is."""
        for hook in self._hooks.get(resource.qualified, ()):
            try:
                hook(new, old)
            except ApiError:
                raise
            except ValueError as refusal:
                name = new["metadata"].get("name", "")
                raise invalid(resource, name, _causes(refusal)) from refusal


def _causes(refusal: ValueError) -> list[Cause]:
    errors: Any = getattr(refusal, "errors", None)
    if not callable(errors):
        return [Cause("", str(refusal))]
    return [
        Cause(".".join(str(part) for part in error["loc"]), f"Invalid value: {error['msg']}")
        for error in errors()
    ]
