"""The text of `kubenode rules replay`."""

from support.clock import T0
from support.rules_builders import a_rule

from kubenode.api.v1alpha1 import Disruption
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from simulation.replay.records import JobRecord, RungRun
from simulation.replay.replay_command import _job


def test_rung_that_did_not_run_has_no_list_of_steps() -> None:
    rung = RungRun("empty", Disruption.PODS, T0)
    job = JobRecord(
        "n1-x", "n1", a_rule("r").remedier, T0, T0, [], 0, "", (), "",
        phase=JobPhase.SHADOWED, message="would have: cordon, migrate", rungs=[rung], closed=T0,
    )  # fmt: skip
    lines = list(_job(job, T0))
    assert lines[1] == "    rung empty (class Pods) did not run"
    assert lines[0].endswith("would have: cordon, migrate")
