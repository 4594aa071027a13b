"""Hooks that see every write before it is stored, and may change or refuse it.

They replace the CEL rules of our CRDs: the pydantic models contain the same rules in Python, and
the demo installs them here. A real server evaluates the CEL rules, and tests compare both. Mutators
replace mutating webhooks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulation.apiserver.errors import ApiError, Cause, Obj, invalid
from simulation.apiserver.patches import json_patch
from simulation.apiserver.registry import ServedResource

Hook = Callable[[Obj, Obj | None], None]
"""hook(new, old): old is None for a new object; raises ValueError to refuse the write.

The objects are those of the store, so a hook must not change them. A ValueError with a method
`errors()` (pydantic.ValidationError) names its fields.
"""

Mutator = Callable[[Obj, Obj | None], Sequence[Mapping[str, Any]]]
"""mutator(new, old): returns the JSON patch to apply to `new`; otherwise like a Hook."""


class Admission:
    """Hooks by qualified resource name, for example "noderemediers.kubenode.io"."""

    def __init__(
        self,
        hooks: Mapping[str, Hook | Sequence[Hook]] | None = None,
        mutators: Mapping[str, Mutator] | None = None,
    ) -> None:
        self._hooks: dict[str, list[Hook]] = {}
        self._mutators = dict(mutators or {})
        for qualified, given in (hooks or {}).items():
            for hook in [given] if callable(given) else given:
                self.add(qualified, hook)

    def add(self, qualified: str, hook: Hook) -> None:
        self._hooks.setdefault(qualified, []).append(hook)

    def mutate(self, resource: ServedResource, new: Obj, old: Obj | None) -> Obj:
        """Return `new`, or a changed copy. Raises ApiError 422 if the mutator refuses."""
        mutator = self._mutators.get(resource.qualified)
        if mutator is None:
            return new
        try:
            ops = mutator(new, old)
        except ValueError as refusal:
            raise invalid(resource, new["metadata"].get("name", ""), _causes(refusal)) from refusal
        return json_patch(new, list(ops)) if ops else new

    def review(self, resource: ServedResource, new: Obj, old: Obj | None) -> None:
        """Run the hooks. Raises ApiError 422 with the first refusal.

        An ApiError that a hook raises is not changed.
        """
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
