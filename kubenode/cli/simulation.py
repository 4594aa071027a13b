"""Imports the simulation for commands. Raises Refusal if the package is not installed.

Production images do not contain the package `simulation`. Commands import this module only when
they run, so that every other command works without it.
"""

from kubenode.cli.exits import Exit, Refusal

MISSING = (
    "this command needs the simulation, which production images do not contain; run the command"
    " in a checkout (`make venv`, then `.venv/bin/kubenode`), or install the wheel"
    " kubenode-simulation of the same version beside kubenode (`make wheel` builds both)"
)

try:
    from simulation import commands
except ModuleNotFoundError as error:
    if error.name != "simulation":
        raise
    raise Refusal(MISSING, Exit.USAGE) from None

__all__ = ["commands"]
