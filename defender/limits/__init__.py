"""The limits, each a pure function from a Case to a Refusal or None.

They take nothing and change nothing: `defender.verdict` asks them all, and what is granted is
entered into the ledger without an await in between.
"""
