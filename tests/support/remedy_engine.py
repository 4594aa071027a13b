"""Diagnosers for tests of the remedy operator."""

from kubenode.runtime.child import ChildProcess
from rules.diagnose import Diagnoser


def a_diagnoser() -> Diagnoser:
    """The reference engine alone: the operator has to be told that one is enough."""
    return Diagnoser()


def two_engines() -> Diagnoser:
    """As in production: durable_rules in a child process beside the reference."""
    return Diagnoser(lambda: ChildProcess("rules.engines.child"))
