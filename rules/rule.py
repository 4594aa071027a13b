"""A rule as it is handed to the compiler, and how the compiler refuses one."""

from dataclasses import dataclass

from kubenode.api.v1alpha1 import NodeRemedier


@dataclass(frozen=True, slots=True)
class RuleVersion:
    """A rule under an id that is unique among those loaded together, such as `name@generation`."""

    id: str
    remedier: NodeRemedier


class CompileError(Exception):
    """`path` is the YAML path within the NodeRemedier, such as `spec.when.all[2].fact`."""

    def __init__(self, rule: str, path: str, message: str) -> None:
        super().__init__(f"{rule}: {path}: {message}")
        self.rule, self.path, self.message = rule, path, message
