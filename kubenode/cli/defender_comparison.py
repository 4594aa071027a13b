"""Renders the comparison of two simulations as text."""

from datetime import timedelta
from typing import Any

from kubenode.api.duration import format_duration
from kubenode.cli.tables import table

SHOWN = 10
"""Rows of the table of requests, those with the greatest difference first."""
Report = dict[str, Any]
FIGURES = {
    "granted": "granted",
    "not granted": "notGranted",
    "held at least once": "held",
    "wait, half of them up to": "waitP50",
    "wait, 90% up to": "waitP90",
    "wait, longest": "waitMax",
    "nodes under a permit, most at once": "mostDisrupted",
    "nodes out, most at once": "mostUnavailable",
}


def lines(report: Report) -> list[str]:
    both = [report["was"], report["present"], report["new"]]
    rows = [
        [what, *(_shown(key, figures.get(key)) for figures in both)]
        for what, key in FIGURES.items()
    ]
    output = [
        f"{report['requests']} requests from {report['from']} to {report['to']},"
        f" {report['nodes']} nodes",
        "",
        *table(["", "AS IT WAS", "PRESENT POLICIES", "WITH THE NEW"], rows),
        "",
        *_reasons(report),
        "",
        *_openings(report),
    ]
    differ = report["differences"]
    output += ["", f"{len(differ)} requests fare differently" + (":" if differ else "")]
    head = ["NODE", "OPERATION", "CLASS", "ASKED", "PRESENT POLICIES", "WITH THE NEW"]
    keys = ("node", "operation", "class", "asked", "present", "new")
    if differ:
        output += table(head, [[row[key] for key in keys] for row in differ[:SHOWN]])
    if len(differ) > SHOWN:
        output.append(f"and {len(differ) - SHOWN} more; -o json has them all")
    return [*output, "", "What this cannot know:", *(f"- {doubt}" for doubt in report["unknown"])]


def _shown(key: str, value: float | None) -> str:
    if value is None:
        return ""
    return format_duration(timedelta(seconds=value)) if key.startswith("wait") else f"{value:g}"


def _reasons(report: Report) -> list[str]:
    counts: dict[tuple[str, str], list[int]] = {}
    for index, which in enumerate(("present", "new")):
        for row in report[which]["heldBy"]:
            counts.setdefault((row["reason"], row["scope"]), [0, 0])[index] = row["requests"]
    if not counts:
        return ["no request is held"]
    rows = [[*what, *each] for what, each in sorted(counts.items())]
    return table(["HELD BY", "SCOPE", "PRESENT POLICIES", "WITH THE NEW"], rows)


def _openings(report: Report) -> list[str]:
    rows = [
        [name, row["policy"], row["scope"], row["at"], row["why"]]
        for which, name in (("present", "present policies"), ("new", "with the new"))
        for row in report[which]["breakersOpened"]
    ]
    if not rows:
        return ["no breaker opens"]
    return table(["BREAKER OPENS", "POLICY", "SCOPE", "AT", "WHY"], rows)
