"""Publishes conditions and Events of the detectors for the agent's own Node.

The format is node-problem-detector's, so that its readers can read the agent's. Two differences are
intended. `lastTransitionTime` changes only with the status, so that a fault with a new reason does
not look younger. A condition that was never checked is not reported as healthy.

    detectors ──► Publisher.report ──► ConditionBoard (newest state of each)  ──► nodes/status
                                  └──► EventTally     (Events, counted, bounded) ──► events
                                          both on disk: agent.outbox
"""
