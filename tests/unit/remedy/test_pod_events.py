"""The kubelet's warnings about pods are evidence about their node, for rules that name them."""

from typing import Any

from support.remedy_facts import Facts

from rules.history import MOST_EVENTS
from rules.truth import Truth

SANDBOX = {"event": {"reason": "FailedCreatePodSandBox", "count": 2}}
ANY_WORDS = {"event": {"message": "Xid"}}


def facts(**rules: Any) -> Facts:
    found = Facts()
    found.node("a")
    found.node("b")
    found.load(**{name: {"when": when} for name, when in rules.items()})
    return found


def test_a_rule_that_names_the_reason_counts_events_of_all_pods_of_the_node() -> None:
    world = facts(rule=SANDBOX)
    assert world.pod_event("one", "FailedCreatePodSandBox") == "a"
    assert world.evidence("a", "rule") is Truth.FALSE
    assert world.pod_event("two", "FailedCreatePodSandBox") == "a"
    assert world.evidence("a", "rule") is Truth.TRUE
    assert world.evidence("b", "rule") is Truth.FALSE


def test_the_words_of_a_pods_author_are_no_evidence() -> None:
    """An image's name, say, is a part of the message."""
    world = facts(words=ANY_WORDS, failed={"event": {"reason": "InspectFailed"}})
    assert world.pod_event("one", "InspectFailed", "NVRM: Xid (PCI:0000:3b:00): 79, x") == "a"
    assert world.evidence("a", "words") is Truth.FALSE
    assert world.evidence("a", "failed") is Truth.TRUE


def test_events_about_pods_that_no_rule_names_are_not_kept() -> None:
    world = facts(rule=SANDBOX)
    assert world.pod_event("one", "FailedMount") is None
    assert world.facts("a").events == ()


def test_what_was_reported_before_the_rules_were_loaded_counts() -> None:
    world = Facts()
    world.pod_event("one", "FailedCreatePodSandBox")
    world.pod_event("two", "FailedCreatePodSandBox")
    world.pod_event("three", "FailedMount")
    world.node("a")
    world.load(rule={"when": SANDBOX})
    assert world.evidence("a", "rule") is Truth.TRUE
    assert {event.reason for event in world.facts("a").events} == {"FailedCreatePodSandBox"}


def test_other_reporters_and_hosts_that_are_no_node_are_passed_over() -> None:
    world = facts(rule=SANDBOX)
    assert world.pod_event("one", "FailedCreatePodSandBox", source="somebody") is None
    assert world.pod_event("two", "FailedCreatePodSandBox", node="") is None
    assert world.pod_event("three", "FailedCreatePodSandBox", node="c") is None
    assert world.facts("a").events == ()


def test_many_pods_displace_no_event_about_the_node() -> None:
    world = facts(rule=SANDBOX, oops={"event": {"reason": "KernelOops"}}, words=ANY_WORDS)
    world.event("oops", "KernelOops")
    for number in range(2 * MOST_EVENTS):
        world.pod_event(f"pod-{number}", "FailedCreatePodSandBox", f"pod {number}")
    assert world.evidence("a", "rule") is Truth.TRUE
    assert world.evidence("a", "oops") is Truth.TRUE
    assert world.evidence("a", "words") is Truth.FALSE, "what is forgotten was about pods"


def test_a_node_that_is_gone_takes_its_pods_events_with_it() -> None:
    world = facts(rule=SANDBOX)
    world.pod_event("one", "FailedCreatePodSandBox")
    world.pod_event("two", "FailedCreatePodSandBox")
    world.gone("a")
    world.node("a", uid="another")
    assert world.evidence("a", "rule") is Truth.FALSE
