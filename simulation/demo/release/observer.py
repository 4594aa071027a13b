"""Judges the releases of the demo by the members' own objects. Captain's status is not read.

Each member has its own watch. It is a violation if a version appears in a stage before the Remedy
operators of all earlier stages have compiled it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubenode.api.v1alpha1 import NodeRemedier
from simulation.demo.release.payload import VERSION_LABEL

COMPILED = "Compiled"
Sighting = tuple[str, str]
"""Stage and version of a rule."""


@dataclass(slots=True)
class ReleaseObserver:
    """Records when each version of the rule appears in each stage, and what it replaces.

    stages: in the order of the pipeline.
    versions: those that are released. Others stood there before.
    """

    stages: Sequence[str]
    versions: Sequence[str]
    appeared: dict[Sighting, float] = field(default_factory=dict)
    proven: dict[Sighting, float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    _current: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    _previous: dict[Sighting, Mapping[str, Any] | None] = field(default_factory=dict)

    def observe(self, stage: str, rule: NodeRemedier | None, at: float) -> None:
        """Take a change of the rule in a stage. None: it was deleted."""
        before = self._current.get(stage)
        self._current[stage] = None if rule is None else _read_content(rule)
        if rule is None:
            return
        version = rule.metadata.labels.get(VERSION_LABEL, "")
        if version in self.versions and (stage, version) not in self.appeared:
            self.appeared[stage, version] = at
            self._previous[stage, version] = before
            self._check_order(stage, version, at)
        if is_compiled(rule):
            self.proven.setdefault((stage, version), at)

    def _check_order(self, stage: str, version: str, at: float) -> None:
        for earlier in self.stages[: self.stages.index(stage)]:
            if (earlier, version) not in self.proven:
                self.violations.append(
                    f"{at:.1f} s: version {version} in stage {stage} before {earlier} proved it"
                )

    def list_stages(self, version: str) -> list[str]:
        """Return the stages in which a version appeared, the first one first."""
        stages = [stage for stage in self.stages if (stage, version) in self.appeared]
        return sorted(stages, key=lambda stage: self.appeared[stage, version])

    def is_restored(self, version: str) -> bool:
        """Return whether each stage with this version has again what stood there before."""
        stages = self.list_stages(version)
        return bool(stages) and all(
            self._current[stage] == self._previous[stage, version] for stage in stages
        )


def is_compiled(rule: NodeRemedier) -> bool:
    """Return whether the Remedy operator has compiled this generation of the rule."""
    observed = rule.status.observed_generation == rule.metadata.generation
    return observed and any(
        each.type == COMPILED and each.status == "True" for each in rule.status.conditions
    )


def _read_content(rule: NodeRemedier) -> Mapping[str, Any]:
    return {"labels": dict(rule.metadata.labels), "spec": rule.spec.to_dict()}
