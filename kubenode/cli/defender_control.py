"""A cluster's objects in the same RiskControl that answers in production.

What only a running Kube Defender knows is not in it: who waits in its queue.
"""

from collections.abc import Sequence
from datetime import datetime

from defender.control import RiskControl
from defender.ledger import load_permit
from defender.policies import LoadedPolicy
from defender.store import LIFE
from kubenode.cli.defender_objects import DefenderObjects


def risk_control(
    objects: DefenderObjects, now: datetime, policies: Sequence[LoadedPolicy] | None = None
) -> RiskControl:
    """Under these `policies`, or the cluster's own."""
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
