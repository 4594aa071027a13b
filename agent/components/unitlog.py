"""Last lines that a systemd unit logged, for a status: bounded, and without likely secrets."""

from agent.components.ports import CommandRunner
from agent.diagnostics.redaction import redacted_beside
from agent.host import HostError

LINES = 5
CHARACTERS = 600
LIMIT_SECONDS = 10.0


def log_command(unit: str) -> list[str]:
    """Return the program that prints what the unit's own processes logged.

    Messages of systemd about the unit are left out: in a crash loop they would be all there is.
    """
    fixed = ["journalctl", "--no-pager", "--quiet", "--output=cat", f"--lines={LINES}"]
    return [*fixed, f"_SYSTEMD_UNIT={unit}"]


async def read_unit_log(runner: CommandRunner, unit: str) -> str:
    """Return the end of the unit's log in one line; "" if there is none or it cannot be read."""
    try:
        ran = await runner.run(log_command(unit), LIMIT_SECONDS)
    except (HostError, TimeoutError):
        return ""
    text = await redacted_beside(ran.output) if ran.code == 0 else ""
    return " ".join(text.split())[-CHARACTERS:]
