"""A rule as the compiler takes it, and the error with which it is refused."""

from dataclasses import dataclass

from kubenode.api.v1alpha1 import NodeRemedier


@dataclass(frozen=True, slots=True)
class RuleVersion:
    """A rule with an id that is unique among the loaded rules, such as `name@generation`."""

    id: str
    remedier: NodeRemedier


class CompileError(Exception):
    """A rule is refused. path: YAML path in the NodeRemedier, such as `spec.when.all[2].fact`."""

    def __init__(self, rule: str, path: str, message: str) -> None:
        super().__init__(f"{rule}: {path}: {message}")
        self.rule, self.path, self.message = rule, path, message
