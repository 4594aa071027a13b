"""What a leaf was found to be, in words: they stand in jobs and holds, so nothing in them ticks."""

from typing import Any

import pytest
from support.clock import T0
from support.rules_builders import a_condition, a_node, seconds

from kubenode.api.v1alpha1 import Expression
from rules.atoms import CountedFact, describe, read
from rules.facts import AlertFact, EventFact, FactSet, HostEventFact, ProbeFact
from rules.truth import Truth

WINDOW = {"days": ["Sun"], "from": "01:00", "to": "05:00", "timeZone": "UTC"}


def leaf(**parts: Any) -> Any:
    return Expression.model_validate(parts).leaf


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"condition": {"type": "A", "for": "120s"}}, "condition A=True for 2m"),
        ({"event": {"reason": "A", "within": "4320s"}}, "event A within 1h12m"),
        ({"event": {"reason": "A", "count": 3}}, "event A 3 times within 10m"),
        ({"alert": {"name": "A", "for": "90s"}}, "alert A for 1m30s"),
        (
            {"absent": {"condition": {"type": "A", "for": "1s"}, "for": "72m"}},
            "absent condition A=True for 1s for 1h12m",
        ),
        ({"hostEvent": {"source": "AWS"}}, "hostEvent of any class of AWS"),
        ({"fact": {"name": "node.age", "above": 4320.5}}, "fact node.age > 4320.5"),
        ({"probe": {"name": "disk.images_unused_bytes", "above": 42949672960}},
         "probe disk.images_unused_bytes > 42949672960"),
        ({"fact": {"name": "time.inWindow", "window": WINDOW}},
         "fact time.inWindow Sun 01:00-05:00 UTC"),
    ],
)  # fmt: skip
def test_a_question_is_written_as_the_api_writes_it(asked: dict[str, Any], words: str) -> None:
    assert describe(leaf(**asked)) == words


def probes(name: str, value: Any) -> FactSet:
    return a_node(probes={name: ProbeFact(value, T0)})


def values(**given: Any) -> FactSet:
    return a_node(values={name.replace("_", "."): value for name, value in given.items()})


FOREIGN, RATIO = {"name": "node.foreignOwner"}, {"name": "zone.unhealthyRatio", "above": 0.4}
FOUND: list[tuple[dict[str, Any], FactSet, Truth, str]] = [
    ({"fact": FOREIGN}, values(node_foreignOwner=False), Truth.FALSE,
     "fact node.foreignOwner is false"),
    ({"fact": FOREIGN}, values(node_foreignOwner=True), Truth.TRUE,
     "fact node.foreignOwner is true"),
    ({"fact": FOREIGN}, values(), Truth.UNKNOWN, "fact node.foreignOwner is not known"),
    ({"fact": FOREIGN}, values(node_foreignOwner=17.5), Truth.UNKNOWN,
     "fact node.foreignOwner is a number, which cannot be compared so"),
    ({"fact": RATIO}, values(zone_unhealthyRatio=0.125), Truth.FALSE,
     "fact zone.unhealthyRatio is not above 0.4"),
    ({"fact": RATIO}, values(zone_unhealthyRatio=0.5), Truth.TRUE,
     "fact zone.unhealthyRatio is above 0.4"),
    ({"fact": RATIO}, values(zone_unhealthyRatio="much"), Truth.UNKNOWN,
     "fact zone.unhealthyRatio is 'much', which cannot be compared so"),
    ({"fact": {"name": "node.gpuCount", "equals": 3}}, values(node_gpuCount=4), Truth.FALSE,
     "fact node.gpuCount is not 3"),
    ({"fact": {"name": "node.gpuCount", "in": [3, 4]}}, values(node_gpuCount=4), Truth.TRUE,
     "fact node.gpuCount is one of 3, 4"),
    ({"fact": {"name": "node.cordonedBy", "equals": ""}}, values(node_cordonedBy="somebody"),
     Truth.FALSE, "fact node.cordonedBy is 'somebody'"),
    ({"fact": {"name": "time.inWindow", "window": WINDOW}}, a_node(), Truth.FALSE,
     "now is outside Sun 01:00-05:00 UTC"),
    ({"fact": {"name": "rack.dark"}}, a_node(inferred={"rack.dark": False}), Truth.FALSE,
     "derived fact rack.dark does not hold"),
    ({"probe": {"name": "host.runtime_state", "equals": "ok"}},
     probes("host.runtime_state", "hung"), Truth.FALSE, "probe host.runtime_state is 'hung'"),
    ({"probe": {"name": "disk.used_pct", "below": 90}}, probes("disk.used_pct", 95), Truth.FALSE,
     "probe disk.used_pct is not below 90"),
    ({"event": {"reason": "A"}}, a_node(), Truth.FALSE, "event A did not occur within 10m"),
    ({"event": {"reason": "A"}}, a_node(events=(EventFact("A", "m", "s", "Warning", 1, T0),)),
     Truth.TRUE, "event A occurred within 10m"),
    ({"event": {"reason": "A", "count": 2}}, a_node(), Truth.FALSE,
     "event A occurred less than 2 times within 10m"),
    ({"alert": {"name": "Disk.*", "for": "2m"}},
     a_node(alerts=(AlertFact("DiskFull", {}, True, T0),), alerts_alive_at=T0), Truth.FALSE,
     "alert Disk.* fires as DiskFull, not yet for 2m"),
    ({"alert": {"name": "Disk"}}, a_node(), Truth.UNKNOWN,
     "alert Disk is not known: no source of alerts was ever heard from"),
    ({"hostEvent": {"class": "Reboot"}}, a_node(), Truth.FALSE, "hostEvent Reboot is not open"),
    ({"hostEvent": {"class": "Reboot"}},
     a_node(host_events=(HostEventFact("e1", "Reboot", "AWS", "Active", "", "m", T0, T0, None),)),
     Truth.TRUE, "hostEvent Reboot of AWS is Active (e1)"),
    ({"condition": {"type": "Fault", "for": "2m"}}, a_node(a_condition()), Truth.FALSE,
     "condition Fault is True (Because), not yet for 2m"),
    ({"absent": {"condition": {"type": "Fault"}, "for": "10m"}},
     a_node(a_condition(status="False")), Truth.FALSE,
     "condition Fault is False (Because), not yet for 10m"),
    ({"label": {"key": "a"}}, a_node(fresh=False), Truth.UNKNOWN,
     "label a is not known: the cache is stale"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "facts", "truth", "words"), FOUND, ids=lambda v: str(v)[:40])
def test_evidence_says_what_was_found(
    asked: dict[str, Any], facts: FactSet, truth: Truth, words: str
) -> None:
    found = read(leaf(**asked), facts, T0 + seconds(5))
    assert (found.truth, found.evidence) == (truth, words)


def test_a_count_says_how_it_compares() -> None:
    asked = CountedFact("r@1", leaf(fact={"name": "zone.sameFault", "below": 3.0}))
    facts = a_node(same_fault={"r@1": {"zone": 4}})
    assert read(asked, facts, T0).evidence == "fact zone.sameFault is not below 3"


@pytest.mark.parametrize("name", ["node.age", "node.sinceBoot", "node.leaseAge"])
def test_evidence_does_not_tick(name: str) -> None:
    asked = leaf(fact={"name": name, "above": 3600.0})
    said = {read(asked, a_node(values={name: age}), T0).evidence for age in (1.0, 2.5, 3599.9)}
    assert len(said) == 1
