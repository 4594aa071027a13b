"""Local repairs without a permit, for units that the agent's own settings name.

    [local.units."kubelet.service"]
    failed_for = "2m"
    most = 2
    within = "1h"

The agent restarts a unit that failed and that systemd has given up on. That disrupts nothing, and
it works while the API server is unreachable. All else is left to the operator: a unit that was
stopped on purpose, one that systemd still restarts, and a node with an open job.
"""
