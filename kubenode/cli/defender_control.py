"""Builds the RiskControl that production uses from a cluster's objects.

It lacks the queue of waiting requests, which only a running Kube Defender knows.
"""

from collections.abc import Sequence
from datetime import datetime

from defender.decision.control import RiskControl
from defender.decision.ledger import load_permit
from defender.decision.policies import LoadedPolicy
from defender.server.store import LIFE
from kubenode.cli.defender_objects import DefenderObjects


def risk_control(
    objects: DefenderObjects, now: datetime, policies: Sequence[LoadedPolicy] | None = None
) -> RiskControl:
    """Build the risk control at `now`.

    policies: None for the cluster's own.
    """
    control = RiskControl()
    control.govern(objects.policies if policies is None else policies, now)
    for name, node in objects.nodes.items():
        control.node_changed(name, node, now)
    for permit in objects.permits:
        control.ledger.enter(load_permit(permit, LIFE.total_seconds()))
    for job in objects.jobs:
        control.job_changed(None, job, now)
    control.advance(now)
    return control
