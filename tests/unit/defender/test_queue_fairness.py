"""Nobody starves, whatever comes in: hypothesis makes the crowd, and one slot goes round."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from support.clock import T0
from support.defender_core import a_node, an_ask
from support.defender_queue import ZONE, WaitingRoom, cluster

from defender.decision.queue.entry import PATIENCE
from kubenode.api.v1alpha1.noderemedier import Severity

SEVERITIES = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
newcomers = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(SEVERITIES), st.booleans()), max_size=3
)
MINUTE = timedelta(minutes=1)


class Crowd(WaitingRoom):
    """One slot, held for a minute each. Who is deaf hears no call, and asks at its own time."""

    def __init__(self) -> None:
        super().__init__(cluster(1))
        self.waits: dict[str, Severity] = {}
        self.deaf: set[str] = set()
        self.came: dict[str, int] = {}
        self.served: dict[str, int] = {}
        self.permit = ""
        self.minute = 0

    def comes(self, zone: str, severity: Severity, deaf: bool) -> None:
        name = f"{zone}{len(self.came)}"
        self.nodes(a_node(name, {ZONE: zone}))
        self.waits[name], self.came[name] = severity, self.minute
        if deaf:
            self.deaf.add(name)

    def asks(self, name: str) -> None:
        verdict = self.ask(an_ask(name, severity=self.waits[name]))
        if verdict.allowed:
            assert not self.permit, "one slot, and two that hold it"
            self.permit, self.served[name] = verdict.permit, self.minute
            del self.waits[name]

    def passes(self) -> None:
        """A minute: the slot is given back, who is called asks, all others ask later."""
        self.minute += 1
        self.now = T0 + self.minute * MINUTE
        if self.permit:
            self.release(self.permit)
            self.permit = ""
        for _ in range(3):
            for name in self.look():
                if name in self.waits and name not in self.deaf:
                    self.asks(name)
            self.now += self.queue.times.grace
        for name in list(self.waits):
            self.asks(name)


@settings(max_examples=15)
@given(first=newcomers, then=st.lists(newcomers, min_size=1, max_size=12))
def test_everybody_is_served_though_more_come_than_can_be(
    first: list[tuple[str, Severity, bool]], then: list[list[tuple[str, Severity, bool]]]
) -> None:
    crowd = Crowd()
    for each in first:
        crowd.comes(*each)
    early = set(crowd.came)
    for some in then:
        for each in some:
            crowd.comes(*each)
        crowd.passes()
    for _ in range(len(crowd.came) + 1):
        crowd.passes()
    assert not crowd.waits, "when nobody comes any more each minute serves one"
    assert early <= crowd.served.keys()


def test_a_steady_stream_of_what_matters_more_delays_by_patience_at_most() -> None:
    crowd = Crowd()
    crowd.comes("b", Severity.INFO, False)
    longest = int((PATIENCE[Severity.INFO] + 10 * MINUTE) / MINUTE)
    for _ in range(longest):
        crowd.comes("a", Severity.CRITICAL, False)
        crowd.passes()
    assert "b0" in crowd.served
