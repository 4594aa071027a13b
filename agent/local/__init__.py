"""Repairs that need no permission: off unless the agent's own settings name a unit.

    [local.units."kubelet.service"]
    failed_for = "2m"
    most = 2
    within = "1h"

A unit that failed, and that systemd has given up on, is started again. That heals without
disruption, and works while nobody can be asked. Everything else is left to the operator: a unit
that was stopped on purpose, one that still tries by itself, and a node that has an open job.
"""
