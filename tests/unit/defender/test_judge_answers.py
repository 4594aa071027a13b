"""Whatever well-formed policies, nodes, permits and questions meet: there is an answer."""

from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.clock import T0
from support.defender_core import CONTROL_PLANE, ZONE, Core, a_node, a_policy, an_ask

from defender.decision.verdict import ORDER, refusals
from kubenode.api.v1alpha1 import Disruption, Operation, Reason

counts = st.integers(0, 12)
shares = counts | st.integers(0, 100).map(lambda n: f"{n}%")
classes = st.lists(st.sampled_from(["Host", "Pods", "Node", "None"]), min_size=1, max_size=4)
rates = st.fixed_dictionaries(
    {
        "count": st.integers(1, 100),
        "per": st.sampled_from(["1s", "1m", "1h", "24h", "720h"]),
        "burst": st.integers(1, 100),
    }
)
scopes = st.sampled_from(
    [{"scope": "Cluster"}, {"scope": "Label", "label": ZONE}, {"scope": "ControlPlane"}]
)
parts = st.fixed_dictionaries(
    {}, optional={"maxConcurrent": shares, "minHealthy": shares, "rate": rates, "classes": classes}
).filter(lambda part: set(part) - {"classes"})
limits = st.lists(st.builds(lambda scope, part: scope | part, scopes, parts), max_size=4)
times = st.sampled_from(["00:00", "02:30", "12:00", "23:59"])
windows = st.fixed_dictionaries(
    {"from": times, "to": times, "timeZone": st.sampled_from(["UTC", "Europe/Berlin"])},
    optional={"for": st.just(["Repair"]), "days": st.just(["Sun"])},
)
pauses = st.sampled_from(
    [
        {},
        {"scope": "Node", "value": "n0"},
        {"scope": "Label", "label": ZONE, "value": "a", "until": "2026-01-01T00:00:00Z"},
    ]
)
policies: Any = st.fixed_dictionaries(
    {"limits": limits},
    optional={
        "operations": st.lists(st.sampled_from(list(Operation)), min_size=1, max_size=6),
        "nodes": st.sampled_from(
            [
                {"all": True},
                {"selector": {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}},
                {"all": True, "exclude": {"matchLabels": {ZONE: "b"}}},
            ]
        ),
        "perNode": st.fixed_dictionaries({"maxActs": st.integers(1, 3), "within": st.just("1h")}),
        "smallPool": st.fixed_dictionaries({"nodes": st.integers(0, 100)}),
        "workload": st.fixed_dictionaries({"maxDisplacedPending": st.integers(0, 3)}),
        "windows": st.lists(windows, max_size=2),
        "pauses": st.lists(pauses, max_size=2),
        "exclude": st.just({"matchLabels": {ZONE: "b"}}),
        "acknowledgeUnlimited": st.just(True),
    },
).filter(lambda spec: spec["limits"] or spec.get("acknowledgeUnlimited"))
labels: Any = st.sampled_from(
    [{}, {ZONE: "a"}, {ZONE: "b"}, {ZONE: ""}, {ZONE: "a"} | CONTROL_PLANE]
)
nodes = st.tuples(labels, st.booleans(), st.booleans(), st.booleans(), st.booleans())


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(policies, max_size=3),
    st.lists(nodes, max_size=6),
    st.lists(
        st.tuples(
            st.integers(0, 7),
            st.sampled_from(list(Disruption)),
            st.sampled_from(list(Operation)),
            st.booleans(),
            st.booleans(),
            st.integers(-90, 90),
        ),
        max_size=8,
    ),
    st.integers(0, 4) | st.none(),
)
def test_every_question_has_an_answer_that_tells_what_to_do(
    specs: list[dict[str, Any]], fleet: list[Any], asks: list[Any], displaced: int | None
) -> None:
    core = Core(*(a_policy(f"p{number}", **spec) for number, spec in enumerate(specs)))
    core.control.displaced = displaced
    for number, (its, ready, schedulable, leaving, young) in enumerate(fleet):
        born = T0 if young else T0 - timedelta(days=9)
        core.nodes(
            a_node(
                f"n{number}", its, ready=ready, schedulable=schedulable, leaving=leaving, born=born
            )
        )
    for number, class_, operation, again, inevitable, minutes in asks:
        holder = "same" if again else ""
        ask = an_ask(f"n{number}", class_, holder, operation, inevitable=inevitable)
        verdict = core.ask(ask)
        told = refusals(ask, core.control, core.now)
        if verdict.allowed:
            assert verdict.reason is Reason.GRANTED and verdict.permit
        else:
            assert verdict.message and verdict.look_again_at is not None
            assert verdict.look_again_at > core.now
            assert verdict.reason in {refusal.reason for refusal in told}
        core.now += timedelta(minutes=minutes)


def test_every_reason_to_refuse_has_its_place_in_the_order() -> None:
    assert set(ORDER) == set(Reason) - {Reason.GRANTED}
