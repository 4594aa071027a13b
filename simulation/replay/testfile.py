"""The file of rule tests, as people write it: rules, nodes, a timeline, and expectations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, ValidationError, field_validator, model_validator

from kubenode.api.base import Model, refusal
from kubenode.api.meta import ConditionStatus, Time
from kubenode.api.problems import problems
from kubenode.cli.documents import UnreadableDocument, YamlDocument, read
from simulation.replay.fleet import LONG_AGO, PODS, healthy
from simulation.replay.moments import At, Length
from simulation.replay.signals import Answers, NodeSnapshot, SimulatedCondition, SimulatedTaint
from simulation.replay.timeline import Entry, Wrong
from simulation.replay.world import START

ZONE, RACK, POOL = "topology.kubernetes.io/zone", "kubenode.io/rack", "kubenode.io/pool"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
MOST_NODES = 20_000


class Nodes(Model):
    """One node, or `count` alike named `prefix` and a number from 1."""

    name: str = ""
    count: StrictInt | None = Field(default=None, ge=1, le=MOST_NODES)
    prefix: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    zone: str = ""
    rack: str = ""
    pool: str = ""
    spread: dict[str, list[str]] = Field(default_factory=dict)
    """Labels whose values are given to the nodes in turn."""
    annotations: dict[str, str] = Field(default_factory=dict)
    taints: list[SimulatedTaint] = Field(default_factory=list)
    age: Length = LONG_AGO
    booted: Length | None = None
    """How long ago the host booted; without it as long ago as the node was made."""
    conditions: dict[str, ConditionStatus] = Field(default_factory=dict)
    """Beside the kubelet's own, which say that it is well."""
    cordoned: StrictBool = False
    control_plane: StrictBool = False
    kernel: str = "6.12.0"
    os_image: str = "Debian GNU/Linux 13"
    runtime: str = "containerd://2.1.0"
    gpus: StrictInt = Field(default=0, ge=0)
    provider_id: str = Field(default="", alias="providerID")
    addresses: list[str] = Field(default_factory=list)
    pods: StrictInt = Field(default=PODS, ge=0)
    probes: Answers = Field(default_factory=dict)
    absent: StrictBool = False
    """It is not there before the timeline says `lifecycle: created`."""

    @model_validator(mode="after")
    def _named(self) -> "Nodes":
        if bool(self.name) == (self.count is not None):
            raise refusal("not one of both: write `name`, or `count` and `prefix`")
        if (self.count is not None) != bool(self.prefix):
            raise refusal("`count` and `prefix` go together", "prefix")
        if any(not values for values in self.spread.values()):
            raise refusal("a label without values: write at least one", "spread")
        return self

    def names(self) -> list[str]:
        if self.count is None:
            return [self.name]
        return [f"{self.prefix}{n}" for n in range(1, self.count + 1)]

    def list_snapshots(self, start: datetime) -> Iterator[tuple[str, NodeSnapshot]]:
        """Yield the name and the snapshot of each node at the start."""
        booted = start - (self.age if self.booted is None else self.booted)
        usual = {c.type: c.status for c in healthy(start, self.age)}
        statuses = {**usual, **self.conditions}
        conditions = [
            SimulatedCondition(type=type_, status=status, since=booted)
            for type_, status in statuses.items()
        ]
        for place, name in enumerate(self.names()):
            yield (
                name,
                NodeSnapshot(
                    labels=self._labels(name, place),
                    annotations=self.annotations,
                    taints=self.taints,
                    created=start - self.age,
                    conditions=conditions,
                    cordoned=self.cordoned,
                    kernel=self.kernel,
                    os_image=self.os_image,
                    runtime=self.runtime,
                    gpus=self.gpus,
                    provider_id=self.provider_id,
                    addresses=self.addresses,
                ),
            )

    def _labels(self, name: str, place: int) -> dict[str, str]:
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name}
        short = {ZONE: self.zone, RACK: self.rack, POOL: self.pool}
        labels |= {key: value for key, value in short.items() if value}
        if self.control_plane:
            labels[CONTROL_PLANE] = ""
        labels |= {key: values[place % len(values)] for key, values in self.spread.items()}
        return labels | self.labels


Scalar = bool | int | float | str


class Compared(Model):
    """A fact that is a number within bounds, or one of several values."""

    above: float | None = None
    below: float | None = None
    in_: list[Scalar] | None = Field(default=None, alias="in")

    @model_validator(mode="after")
    def _something(self) -> "Compared":
        if self.above is None and self.below is None and self.in_ is None:
            raise refusal("nothing is compared: write above, below or in")
        return self

    def holds(self, value: Scalar | None) -> bool:
        if self.in_ is not None and value not in self.in_:
            return False
        if self.above is None and self.below is None:
            return True
        if value is None or isinstance(value, bool | str):
            return False
        above = self.above is None or value > self.above
        return above and (self.below is None or value < self.below)


Truths = Literal["true", "false", "unknown"]


class ExpectedNotification(Model):
    """A notification of a job: what it is about, who gets it, and its sentence.

    Keys that are left out may be anything. `says` may have `*` for any text.
    """

    on: str | None = None
    """A phase such as NeedsHuman, or `notify` for a step."""
    to: list[str] | None = None
    says: str | None = None


class Expect(Model):
    """What must be so at an instant, after all that happens then. Every key that is given counts.

    Without `node` it is about the whole fleet.
    """

    at: At
    node: str | list[str] = ""
    job: str | None = None
    """`none`: no job was ever made for the node; `open`, `closed`, or the name of a rule: what the
    latest job is."""
    remedier: str | None = None
    rung: str | StrictInt | None = None
    start_rung: StrictInt | None = None
    phase: str | None = None
    hold: str | None = None
    mode: str | None = None
    severity: str | None = None
    fault_class: str | None = None
    close_reason: str | None = None
    steps: list[str] | None = None
    also_matched: list[str] | None = None
    notified: list[ExpectedNotification] | None = None
    """All notifications of the latest job so far, in order."""
    jobs: StrictInt | None = None
    matches: list[str] | None = None
    guards: dict[str, Truths] | None = None
    waits: dict[str, str] | None = None
    facts: dict[str, Compared | Scalar] | None = None
    asked: list[str] | None = None
    cordoned: StrictBool | None = None
    open_jobs: StrictInt | None = None
    total_jobs: StrictInt | None = None
    held: dict[str, StrictInt] | None = None

    _guard_texts = field_validator("guards", mode="before")(lambda v: _normalize_truths(v))

    @model_validator(mode="after")
    def _about_something(self) -> "Expect":
        given = self.model_fields_set - {"at", "node"}
        if not given:
            raise refusal("nothing is expected: write job, facts, matches or another key")
        of_fleet = {"open_jobs", "total_jobs", "held"}
        if self.node and (wrong := sorted(given & of_fleet)):
            raise refusal(f"{wrong[0]} is of the whole fleet: leave `node` out", "node")
        if not self.node and (given - of_fleet):
            raise refusal("required and missing: name the node", "node")
        return self

    @property
    def nodes(self) -> list[str]:
        return [self.node] if isinstance(self.node, str) else self.node


def _normalize_truths(value: Any) -> Any:
    """Replace booleans, as YAML reads them, by "true" and "false"."""
    if not isinstance(value, dict):
        return value
    truth_names = {True: "true", False: "false"}
    return {k: truth_names.get(v, v) if isinstance(v, bool) else v for k, v in value.items()}


Mode = Literal["Enforce", "Approve", "DryRun"]
Outcome = Literal["stays", "heals"] | dict[str, Literal["stays", "heals"]]


class RuleTestSettings(Model):
    """What a file says for all of its tests, and a test for itself."""

    rules: list[str] | None = Field(default=None, min_length=1)
    mode: Mode | None = None
    policy: str | None = None
    engines: Literal["both", "reference"] | None = None
    start: Time | None = None
    outcome: Outcome | None = None
    """Whether repairs help, or from which rung on they do."""
    fails: list[str] | None = None
    """Names of steps that fail."""


def _make_single_node() -> list[Nodes]:
    return [Nodes(name="a")]


class Test(RuleTestSettings):
    __test__ = False

    name: str = Field(min_length=1)
    nodes: list[Nodes] = Field(default_factory=_make_single_node, min_length=1)
    timeline: list[Entry] = Field(default_factory=list)
    expect: list[Expect] = Field(min_length=1)

    def names(self) -> list[str]:
        return [name for nodes in self.nodes for name in nodes.names()]

    @model_validator(mode="after")
    def _each_node_once(self) -> "Test":
        known = self.names()
        if len(set(known)) < len(known):
            twice = next(name for name in known if known.count(name) > 1)
            raise refusal(f"two nodes are named {twice!r}: rename one", "nodes")
        return self


class TestFile(RuleTestSettings):
    __test__ = False

    tests: Annotated[list[Test], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_rules(self) -> "TestFile":
        if self.rules is None and any(test.rules is None for test in self.tests):
            raise refusal("required and missing: name the files of the rules", "rules")
        return self


@dataclass(frozen=True, slots=True)
class RuleTestCase:
    """One test with the settings of its file.

    `where` returns the place of a part of the test in the file.
    """

    file: Path
    index: int
    test: Test
    settings: RuleTestSettings
    document: YamlDocument

    def where(self, *field: str | int) -> str:
        return self.document.where(("tests", self.index, *field))

    @property
    def start(self) -> datetime:
        return self.settings.start or START

    @property
    def rules(self) -> list[Path]:
        """Return the paths of the rules, which the file gives relative to itself."""
        return [self.file.parent / name for name in self.settings.rules or ()]


def cases(path: Path) -> list[RuleTestCase]:
    """Read all tests of a file.

    Raises Wrong with a line `file:line:col: field: what, remedy` for each problem.
    """
    try:
        documents = list(read(path))
    except UnreadableDocument as error:
        raise Wrong(str(error)) from error
    if len(documents) != 1:
        raise Wrong(f"{path}: one YAML document is needed, here are {len(documents)}")
    (document,) = documents
    if not isinstance(document.data, Mapping):
        raise Wrong(f"{document.where(())}: no tests: write rules and tests")
    try:
        file = TestFile.model_validate(document.data)
    except ValidationError as error:
        lines = problems(error, TestFile, lambda field: document.where(_keys(field)))
        raise Wrong("\n".join(lines)) from error
    if strays := [line for n, test in enumerate(file.tests) for line in _strays(file, n, test)]:
        raise Wrong("\n".join(f"{document.where(field)}: {problem}" for field, problem in strays))
    return [
        RuleTestCase(path, n, t, _settings(file, t), document) for n, t in enumerate(file.tests)
    ]


def _strays(file: TestFile, place: int, test: Test) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield field and problem of unknown nodes and of duplicate names of tests."""
    if test.name in (other.name for other in file.tests[:place]):
        yield ("tests", place, "name"), f"tests[{place}].name: {test.name!r} is taken"
    known = test.names()
    parts: dict[str, Sequence[Entry | Expect]]
    parts = {"timeline": test.timeline, "expect": test.expect}
    for part, several in parts.items():
        for n, entry in enumerate(several):
            for name in entry.nodes if entry.node else ():
                if not any(fnmatchcase(k, name) for k in known):
                    message = f"{name!r} is no node of this test: there are {', '.join(known[:8])}"
                    yield (
                        ("tests", place, part, n, "node"),
                        f"tests[{place}].{part}[{n}].node: {message}",
                    )


def _keys(field: tuple[str | int, ...]) -> tuple[str | int, ...]:
    return tuple(int(p) if isinstance(p, str) and p.isdecimal() else p for p in field)


def _settings(file: TestFile, test: Test) -> RuleTestSettings:
    """Merge the settings: those of the test replace those of the file."""
    names = RuleTestSettings.model_fields
    own = {n: getattr(test, n) for n in names if getattr(test, n) is not None}
    return RuleTestSettings.model_construct(**{n: getattr(file, n) for n in names} | own)
