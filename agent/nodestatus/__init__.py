"""Tells the API server what the detectors saw: conditions and Events of the agent's own Node.

The form is node-problem-detector's, so that whoever reads its conditions reads ours. What differs
on purpose: `lastTransitionTime` moves with the status alone, so that a fault with a new reason is
not taken for a younger one, and nothing is said to be well that nobody has looked at.

    detectors ──► Publisher.report ──► Board  (newest state of each condition)  ──► nodes/status
                                  └──► Tally  (Events, counted, bounded)        ──► events
                                          both on disk: agent.outbox
"""
