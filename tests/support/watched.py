"""What tests of detectors need: a sink that keeps what it hears, and a tree like /proc and /sys."""

from pathlib import Path

from agent.detectors import ConditionReport, EventReport, Report, ReportedStatus


class Heard:
    """Implements agent.detectors.Sink."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def report(self, report: Report) -> None:
        self.reports.append(report)

    @property
    def events(self) -> list[EventReport]:
        return [report for report in self.reports if isinstance(report, EventReport)]

    def history(self, kind: str) -> list[tuple[ReportedStatus, str]]:
        """Status and reason of a condition, each change once."""
        found: list[tuple[ReportedStatus, str]] = []
        for report in self.reports:
            if isinstance(report, ConditionReport) and report.type == kind:
                found.append((report.status, report.reason))
        return [one for at, one in enumerate(found) if not at or found[at - 1] != one]

    def last(self, kind: str) -> ConditionReport:
        """Raises IndexError when nothing was said of it."""
        told = [report for report in self.reports if isinstance(report, ConditionReport)]
        return [report for report in told if report.type == kind][-1]


class Tree:
    """A host's files under a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __str__(self) -> str:
        return str(self.root)

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def process(self, pid: int, name: str, state: str = "S", start: int = 1) -> None:
        fields = [state, "1", *["0"] * 17, str(start), "0"]
        self.write(f"proc/{pid}/stat", f"{pid} ({name}) {' '.join(fields)}\n")
        self.write(f"proc/{pid}/comm", f"{name}\n")
