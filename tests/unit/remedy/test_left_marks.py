"""Marks of a job that was deleted by force are taken off its node, and of no other job."""

from datetime import timedelta
from typing import Any

import pytest
from support.remedy_hand import Hands

from kubenode.runtime.controller.result import DONE

MARK = "karpenter.sh/do-not-disrupt"
MARKS = {"kubenode.io/protected-by": f"n1-gone {MARK}", MARK: "true"}
CORDON = {"kubenode.io/cordoned-by": "n1-gone"}


@pytest.fixture
def hands() -> Hands:
    made = Hands()
    made.node()
    return made


def marked(hands: Hands, annotations: dict[str, str]) -> list[Any]:
    """The node has these annotations and is cordoned; what is patched goes into the list."""
    node = hands.nodes.cache["n1"]
    node.metadata.annotations.update(annotations)
    node.spec.unschedulable = True
    patches: list[Any] = []

    async def patch(path: str, body: Any, *more: Any, **options: Any) -> None:
        patches.append(body)

    hands.api.patch = patch  # type: ignore[method-assign]
    return patches


async def waited(hands: Hands) -> None:
    """The operator looks, and once more when it wants to."""
    again = await hands.operator.abandoned_marks.reconcile("n1")
    if again.requeue_after is not None:
        hands.clock.step(again.requeue_after)
        hands.current()
        assert await hands.operator.abandoned_marks.reconcile("n1") == DONE


async def test_marks_and_cordon_of_a_job_that_is_gone_are_taken_off(hands: Hands) -> None:
    patches = marked(hands, {**MARKS, **CORDON})
    assert (await hands.operator.abandoned_marks.reconcile("n1")).requeue_after == timedelta(
        minutes=1
    )
    assert patches == [], "the job may only not be seen yet"
    await waited(hands)
    (body,) = patches
    gone = {MARK: None, "kubenode.io/protected-by": None, "kubenode.io/cordoned-by": None}
    assert body["metadata"]["annotations"] == gone
    assert body["spec"] == {"unschedulable": None}


async def test_a_cordon_stays_with_the_fence_of_a_job_that_is_gone(hands: Hands) -> None:
    patches = marked(hands, {**CORDON, "kubenode.io/fenced-by": "n1-gone"})
    await waited(hands)
    assert patches == []


async def test_marks_stay_while_it_is_not_known_whether_their_job_is_there(hands: Hands) -> None:
    patches = marked(hands, {**MARKS, **CORDON})
    hands.current(False)
    assert await hands.operator.abandoned_marks.reconcile("n1") == DONE
    hands.clock.step(timedelta(hours=1))
    assert await hands.operator.abandoned_marks.reconcile("n1") == DONE
    assert patches == []


async def test_marks_of_a_job_that_is_there_stay(hands: Hands) -> None:
    await hands.rule()
    hands.node(
        Sick=("True", hands.clock.now() - timedelta(hours=1)),
        Ready=("True", hands.clock.now() - timedelta(days=1)),
    )
    await hands.decide()
    (job,) = hands.made()
    patches = marked(hands, {"kubenode.io/cordoned-by": job.metadata.name})
    await waited(hands)
    assert patches == []


SET = "MachineComponentSet/containerd/u1"


async def test_cordon_of_the_machine_operator_is_no_mark_of_a_job_that_is_gone(
    hands: Hands,
) -> None:
    patches = marked(hands, {"kubenode.io/cordoned-by": SET})
    await waited(hands)
    assert patches == []


async def test_job_that_is_gone_leaves_the_cordon_that_it_shared(hands: Hands) -> None:
    patches = marked(hands, {"kubenode.io/cordoned-by": f"n1-gone,{SET}"})
    await waited(hands)
    (body,) = patches
    assert body["metadata"]["annotations"] == {"kubenode.io/cordoned-by": SET}
    assert "spec" not in body
