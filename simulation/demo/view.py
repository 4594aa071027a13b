"""The demo on a terminal of 100x30: the fleet as a grid, jobs, holds with reasons, and budgets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from simulation.demo.fleet import ZONES
from simulation.demo.ledger import Ledger
from simulation.demo.observer import Observer
from simulation.demo.summary import describe_slowness, is_too_slow

WIDTH = 28
ROWS = 8
CELLS = {
    "well": ("■", "green"),
    "job": ("■", "cyan"),
    "cordoned": ("▣", "yellow"),
    "person": ("▣", "magenta"),
    "ill": ("■", "red"),
    "unknown": ("□", "bright_black"),
}
"""Symbol and colour of a node by its state."""
LEGEND = (
    ("ill", "unready"), ("job", "repair"), ("cordoned", "cordon"), ("person", "by hand"),
)  # fmt: skip
RANK = {state: i for i, state in enumerate(("well", "person", "unknown", "ill", "cordoned", "job"))}
PEOPLE = ("NeedsHuman", "AwaitingApproval")
ACTIVE = ("Running", "Verifying")
OPEN = ("Pending", "AwaitingPermit", "AwaitingApproval", "Running", "Verifying", "NeedsHuman")
JOB_ROWS = 9
BREAKERS = {"Open": "red", "HalfOpen": "yellow"}


@dataclass(slots=True)
class Screen:
    """The data of the view.

    zones: node to zone, in the order of the fleet.
    """

    title: str
    zones: Mapping[str, str]
    observer: Observer
    ledger: Ledger
    jobs: Mapping[str, dict[str, Any]]
    policy: Mapping[str, Any]
    queue: Sequence[str] = ()
    """Nodes whose jobs wait in Kube Defender's queue, the next one first."""
    news: list[str] = field(default_factory=list)
    footer: str = ""
    seconds: float = 0.0
    speed: float = 20.0
    behind: float = 0.0
    """The largest delay of the simulated fleet in seconds."""
    progress: str = ""
    """The progress of a rollout; empty for other scenarios."""
    has_faults: bool = True


def render(screen: Screen) -> RenderableType:
    layout = Layout()
    grid_height = 2 + min(ROWS, -(-len(screen.zones) // len(ZONES) // WIDTH))
    layout.split_column(
        Layout(_head(screen), size=2),
        Layout(_zones(screen), size=grid_height),
        Layout(_jobs(screen), size=(JOB_ROWS if screen.has_faults or screen.jobs else 1) + 3),
        Layout(name="low"),
        Layout(
            Text(screen.footer, style="bright_black", no_wrap=True),
            size=1 + screen.footer.count("\n"),
        ),
    )
    layout["low"].split_row(Layout(_holds(screen)), Layout(_budgets(screen)))
    return layout


def _head(screen: Screen) -> RenderableType:
    counts = Text((f"{screen.seconds:5.0f} s  "), "bold", no_wrap=True, overflow="ellipsis")
    counts.append_text(_counts(screen))
    for state, label in LEGEND:
        cell, style = CELLS[state]
        counts.append(f"{cell} ", style)
        counts.append(f"{label} ", "bright_black")
    return Group(Text(screen.title, style="bold", no_wrap=True), counts)


def _counts(screen: Screen) -> Text:
    if is_too_slow(screen.behind, screen.speed):
        return Text(f"{describe_slowness(screen.behind)}  ", "yellow")
    if not screen.has_faults:
        return Text(f"{screen.progress or 'nothing fails by itself'}  ", "")
    real = sum(f.kind.real for f in screen.ledger.faults)
    return Text.assemble(
        f"faults {real}  ",
        (f"healed {len(screen.ledger.healed)}  ", "green"),
        "false actions ",
        _zero(len(screen.observer.false_actions)),
        "  above a limit ",
        _zero(len(screen.observer.limit_violations)),
        "  ",
    )


def _zero(count: int) -> tuple[str, str]:
    return str(count), "green" if count == 0 else "bold red"


def _zones(screen: Screen) -> RenderableType:
    busy = {
        job["spec"]["nodeName"]
        for job in screen.jobs.values()
        if (job.get("status") or {}).get("phase") in ("Running", "Verifying")
    }
    table = Table.grid(expand=True)
    panels = []
    for zone in ZONES:
        names = [name for name, where in screen.zones.items() if where == zone]
        states = [_state(screen, name, busy) for name in names]
        each = max(1, -(-len(states) // (WIDTH * ROWS)))
        worst = [
            max(states[i : i + each], key=RANK.__getitem__) for i in range(0, len(states), each)
        ]
        text = Text()
        for i, state in enumerate(worst):
            cell, style = CELLS[state]
            text.append(cell, style)
            if i % WIDTH == WIDTH - 1:
                text.append("\n")
        unwell = sum(state in ("ill", "unknown") for state in states)
        title = f"{zone}: {len(names)} nodes" + (f", {unwell} not ready" if unwell else "")
        border = BREAKERS.get(_breaker(screen, zone).get("state", ""), "none")
        panels.append(
            Panel(text, title=title, title_align="left", padding=(0, 1), border_style=border)
        )
        table.add_column(ratio=1)
    table.add_row(*panels)
    return table


def _breaker(screen: Screen, zone: str) -> Mapping[str, str]:
    """Return the zone's breaker in the policy's status; empty if it is closed."""
    breakers = (b for b in screen.policy.get("breaker") or () if b["scope"].endswith(f"={zone}"))
    return next(breakers, {})


def _state(screen: Screen, name: str, busy: set[str]) -> str:
    node = screen.observer.nodes.get(name)
    if node is None:
        return "unknown"
    if name in busy:
        return "job"
    if node.unschedulable:
        return "cordoned" if node.ours else "person"
    return "well" if node.ready else "ill"


def _jobs(screen: Screen) -> RenderableType:
    table = Table(expand=True, box=None, padding=(0, 1), title_justify="left")
    for column, ratio in (("node", 2), ("rule", 5), ("phase", 4), ("rung", 4), ("why", 11)):
        table.add_column(column, ratio=ratio, no_wrap=True, overflow="ellipsis")
    jobs = sorted(screen.jobs.values(), key=_newest_first)
    for job in choose_jobs(jobs):
        table.add_row(*_row(job))
    counts = Counter(_phase(j) for j in jobs)
    totals = "  ".join(f"{phase} {count}" for phase, count in sorted(counts.items()))
    none = "none yet" if screen.has_faults else "no job: no node has a fault"
    return Panel(table, title=f"jobs: {totals or none}", title_align="left", padding=(0, 0))


def choose_jobs(jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the jobs that fit: those that need a person, then running, waiting and closed ones.

    jobs: the newest first.
    """
    people = [job for phase in PEOPLE for job in jobs if _phase(job) == phase]
    running = [job for job in jobs if _phase(job) in ACTIVE]
    waiting = [j for j in jobs if _phase(j) in OPEN and _phase(j) not in (*PEOPLE, *ACTIVE)]
    closed = [job for job in jobs if _phase(job) not in OPEN]
    few = min(3, len(waiting))
    chosen = people[: JOB_ROWS - few]
    chosen += running[: max(JOB_ROWS - few - len(chosen), 0)]
    return [*chosen, *waiting, *closed][:JOB_ROWS]


PHASES = {
    "Succeeded": "green",
    "Running": "cyan",
    "Verifying": "cyan",
    "AwaitingPermit": "yellow",
    "NeedsHuman": "magenta",
    "Failed": "red",
}


def _row(job: dict[str, Any]) -> tuple[RenderableType, ...]:
    spec, status = job["spec"], job.get("status") or {}
    phase = _phase(job)
    rung = spec["ladder"][min(status.get("rung", 0), len(spec["ladder"]) - 1)]["name"]
    hold = status.get("hold") or {}
    why = f"{hold['reason']}: {hold.get('message', '')}" if hold.get("reason") else ""
    return (
        Text(spec["nodeName"]),
        Text((spec.get("remedier") or {}).get("name", "by hand")),
        Text(phase, style=PHASES.get(phase, "bright_black")),
        Text(rung),
        Text(why or status.get("message", ""), style="" if why else "bright_black"),
    )


def _phase(job: dict[str, Any]) -> str:
    return (job.get("status") or {}).get("phase") or "Pending"


def _newest_first(job: dict[str, Any]) -> str:
    created = str(job["metadata"].get("creationTimestamp", ""))
    return "".join(chr(0x7F - min(ord(c), 0x7E)) for c in created)


def _holds(screen: Screen) -> RenderableType:
    holds: Counter[tuple[str, str]] = Counter()
    for job in screen.jobs.values():
        hold = (job.get("status") or {}).get("hold") or {}
        if hold.get("reason") and _phase(job) in OPEN:
            holds[hold["reason"], hold.get("scope", "")] += 1
    lines = Text()
    for (reason, scope), count in holds.most_common(4):
        lines.append(f"{count:4d} held  ", "yellow")
        lines.append(f"{reason}{f' in {scope}' if scope else ''}\n")
    for line in screen.news[-4:]:
        lines.append(f"{line}\n", "bright_black")
    lines.no_wrap, lines.overflow = True, "ellipsis"
    title = "held, and last events"
    if screen.queue:
        title = f"{len(screen.queue)} wait for a permit; next {', '.join(screen.queue[:2])}"
    return Panel(lines, title=title, title_align="left", padding=(0, 1))


def _budgets(screen: Screen) -> RenderableType:
    lines = Text(no_wrap=True, overflow="ellipsis")
    for breaker in screen.policy.get("breaker") or ():
        scope = breaker["scope"].rpartition("=")[2]
        style = BREAKERS.get(breaker["state"], "")
        lines.append(f"breaker {scope} {breaker['state']}: {breaker.get('why', '')}\n", style)
    for budget in screen.observer.budgets:
        short = budget.name.rpartition("=")[2]
        if budget.name != "cluster" and "/zone=" not in budget.name:
            continue
        taken = len(screen.observer.disrupted(budget))
        classes = "Host" if "Host" in budget.classes else "Pods"
        style = "yellow" if taken == budget.at_most else ""
        lines.append(f"{short:8s} {classes}  {taken:3d} of {budget.at_most or '∞':<3}", style)
        if budget.keep:
            lines.append(f" {screen.observer.healthy(budget)} well, keep {budget.keep}")
        lines.append("\n")
    return Panel(lines, title="budgets (observer's count)", title_align="left", padding=(0, 1))
