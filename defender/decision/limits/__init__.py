"""Limits, each a pure function from a LimitCase to a LimitRefusal or None.

They change nothing. `defender.decision.verdict` evaluates them all, and enters what is granted into
the ledger with no await in between.
"""
