"""An audit log that a test reads."""

from kubenode.runtime.audit import AuditLine


class Kept:
    def __init__(self) -> None:
        self.lines: list[AuditLine] = []

    def write(self, line: AuditLine) -> None:
        self.lines.append(line)

    def told(self) -> list[tuple[str, str, str]]:
        """(what, outcome, after) of each."""
        return [(line.what, line.outcome, line.after) for line in self.lines]
