"""A job that supersedes another takes its place on the node: one disruption, not two."""

from support.defender_core import Core, a_policy, an_ask

from kubenode.api.v1alpha1 import Ask, Reason

ONE = {"scope": "Cluster", "maxConcurrent": 1}


def successor(node: str, of: str) -> Ask:
    return an_ask(node, holder="second").model_copy(update={"successor_of": of})


def test_the_permit_of_the_superseded_job_does_not_stand_in_the_way_of_its_successor() -> None:
    core = Core(a_policy(limits=[ONE]))
    core.fleet(20)
    first = core.ask(an_ask("n0", holder="first"))
    second = core.ask(successor("n0", "first"))
    assert second.allowed and second.permit != first.permit
    core.release(first.permit)
    no = core.judge(an_ask("n1", holder="third"))
    assert (no.reason, no.used, no.limit) == (Reason.CONCURRENCY_LIMIT, 1, 1)


def test_nobody_elses_permit_is_passed_over() -> None:
    core = Core(a_policy(limits=[ONE]))
    core.fleet(20)
    core.ask(an_ask("n0", holder="first"))
    assert core.judge(successor("n0", "another")).reason is Reason.NODE_BUSY
    assert core.judge(successor("n1", "first")).reason is Reason.CONCURRENCY_LIMIT


def test_a_successor_whose_predecessor_gave_its_place_back_asks_as_anybody() -> None:
    core = Core(a_policy(limits=[ONE]))
    core.fleet(20)
    first = core.ask(an_ask("n0", holder="first"))
    core.release(first.permit)
    core.ask(an_ask("n1", holder="third"))
    assert core.judge(successor("n0", "first")).reason is Reason.CONCURRENCY_LIMIT
