"""Machines that a fake cloud makes: by token, with tags, on their way for a while."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from support.cloud_server import Answer
from support.instance_contract import Trouble

from kubenode.providers.instances import CLUSTER_TAG, TOKEN_TAG

CREATED = "2026-11-02T03:04:05Z"


@dataclass(slots=True)
class FakeInstance:
    """state  pending, running, ending, ended; words  all that was asked, to tell requests apart"""

    id: str
    name: str
    tags: Mapping[str, str]
    user_data: str
    words: str
    state: str = "pending"
    hidden: bool = False


@dataclass(slots=True)
class FakeFleet:
    """What is asked comes about with `settle`. Levers: `lose`, `hide`, `trouble`."""

    instances: dict[str, FakeInstance] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    """Of the cloud's own: client token to instance."""
    lose: bool = False
    hiding: bool = False
    trouble: Trouble | None = None
    blind: bool = False
    """Nobody may look; what is seen then is the cloud's way to say so."""
    count: int = 0

    def add(self, instance: FakeInstance, token: str = "") -> FakeInstance:
        self.instances[instance.id] = instance
        if token:
            self.tokens[token] = instance.id
        return instance

    def of_token(self, token: str) -> FakeInstance | None:
        found = self.tokens.get(token)
        return None if found is None else self.instances[found]

    def tagged(self, wanted: Mapping[str, str]) -> list[FakeInstance]:
        return [
            one
            for one in self.instances.values()
            if wanted.items() <= one.tags.items() and not one.hidden
        ]

    def hide(self) -> None:
        """From the tags alone: by its ID it is found, as a cloud's own tables are ahead."""
        for one in self.instances.values():
            one.hidden = CLUSTER_TAG in one.tags and TOKEN_TAG in one.tags

    def show(self) -> None:
        for one in self.instances.values():
            one.hidden = False

    def settle(self) -> None:
        steps = {"pending": "running", "ending": "ended"}
        for one in self.instances.values():
            one.state = steps.get(one.state, one.state)

    def alive(self) -> list[str]:
        return [one.id for one in self.instances.values() if one.state != "ended"]

    def next(self) -> int:
        self.count += 1
        return self.count

    def answered(self, made: Answer, lost: Callable[[], Answer]) -> Answer:
        """`made`, or what is told instead when its answer is lost."""
        if self.lose:
            self.lose = False
            return lost()
        return made
