"""Plots of the last hours for the fleet, a zone, a rule or a node. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from defender.dashboard.node_state import ZONE
from defender.dashboard.scene import Scene
from defender.dashboard.views.breakers import ruling_watches
from defender.decision.census import CLUSTER
from defender.decision.jobs import ObservedJob
from defender.decision.pauses import describe_scope
from defender.overview.bands import UNKNOWN, BreakerBand, breaker_bands
from defender.overview.records import WouldHaveView
from defender.overview.series import RepairSeries, collect_repairs
from defender.overview.usage import ALL_SCOPES, BudgetUse
from kubenode.api.v1alpha1.defenderpolicy import BreakerState
from kubenode.runtime.site import plot
from kubenode.runtime.site.charts import bar_chart, many, time_chart
from kubenode.runtime.site.plot import Plot, PlotLabel, Row
from kubenode.runtime.site.text import instant, seconds
from kubenode.runtime.site.window import PlotWindow

SPANS = {"6": timedelta(hours=6), "24": timedelta(hours=24), "72": timedelta(hours=72)}
"""Length of the plots by the parameter `hours`."""
DEFAULT_HOURS = "6"
MOST_BANDS = 6
NOT_KNOWN = "not known"
BAND_KINDS = {
    BreakerState.OPEN: "solid",
    BreakerState.HALF_OPEN: "half",
    BreakerState.CLOSED: "closed",
    UNKNOWN: "unknown",
}
BAND_HEIGHTS = (("solid", 1.0), ("half", 0.5), ("closed", 0.12), ("unknown", 1.0))


@dataclass(frozen=True, slots=True)
class PlotScope:
    """What the plots are about.

    jobs: whether a job counts.
    node, rule: whether dry runs of a node and of a rule count.
    budget: scope whose budgets are shown, ALL_SCOPES for all, None for none.
    breakers: whether the breaker of a scope is shown.
    """

    jobs: Callable[[ObservedJob], bool]
    node: Callable[[str], bool]
    rule: Callable[[str], bool]
    budget: str | None
    breakers: Callable[[str], bool]


def _any(_: object) -> bool:
    return True


def of_fleet() -> PlotScope:
    return PlotScope(_any, _any, _any, ALL_SCOPES, _any)


def of_zone(scene: Scene, name: str) -> PlotScope:
    def is_here(node: str) -> bool:
        known = scene.nodes.get(node)
        return known is not None and known.metadata.labels.get(ZONE, "") == name

    scope = f"{ZONE}={name}"
    return PlotScope(
        lambda job: is_here(job.spec.node_name), is_here, _any, scope,
        lambda each: each in (CLUSTER, scope),
    )  # fmt: skip


def of_rule(name: str) -> PlotScope:
    return PlotScope(
        lambda job: job.spec.remedier.name == name, _any, lambda rule: rule == name, None,
        lambda scope: False,
    )  # fmt: skip


def of_node(scene: Scene, name: str) -> PlotScope:
    node = scene.nodes.get(name)
    labels = {} if node is None else node.metadata.labels
    scopes = {CLUSTER, *(f"{key}={value}" for key, value in labels.items())}
    return PlotScope(
        lambda job: job.spec.node_name == name, lambda each: each == name, _any, None,
        lambda scope: scope in scopes,
    )  # fmt: skip


def view_plots(scene: Scene, scope: PlotScope, params: Mapping[str, str]) -> list[Plot]:
    """Return the plots of the last hours, as many as `params` say."""
    hours = hours_of(params)
    window = PlotWindow.until(scene.now, SPANS[hours])
    jobs = (job for job in scene.jobs.values() if scope.jobs(job))
    repairs = collect_repairs(jobs, _dry_runs(scene, scope), window)
    plots = [_faults(repairs, window), _heals(repairs, window), _times(repairs, window)]
    if scope.budget is not None:
        plots.append(_budgets(scene, scope.budget, window))
    bands = [
        band
        for watch in ruling_watches(scene)
        for band in breaker_bands(watch.policy.name, tuple(watch.changes), window.begin, scene.now)
        if scope.breakers(band.scope)
    ]
    if scope.budget is not None or bands:
        plots.append(_breakers(bands, window))
    return plots


def hours_of(params: Mapping[str, str]) -> str:
    hours = params.get("hours", DEFAULT_HOURS)
    return hours if hours in SPANS else DEFAULT_HOURS


def _dry_runs(scene: Scene, scope: PlotScope) -> Iterator[WouldHaveView]:
    for name, record in scene.records.items():
        if not scope.node(name):
            continue
        for run in record.spec.dry_runs:
            if scope.rule(run.remedier):
                yield from run.recent


# -- one plot each --------------------------------------------------------------------------------


def _faults(repairs: RepairSeries, window: PlotWindow) -> Plot:
    begun, dry = sum(repairs.begun), sum(repairs.dry_runs)
    sentence = f"{many(begun, 'fault')} with a job began"
    if dry:
        sentence += f", and {many(dry, 'fault')} that rules in DryRun matched"
    return bar_chart(
        ("faults", "Faults begun", f"{sentence}."), window,
        {("solid", "with a job"): repairs.begun, ("outline", "in DryRun"): repairs.dry_runs},
    )  # fmt: skip


def _heals(repairs: RepairSeries, window: PlotWindow) -> Plot:
    healed, failed = sum(repairs.healed), sum(repairs.failed)
    sentence = f"{many(healed, 'job')} healed {'its node' if healed == 1 else 'their nodes'}"
    sentence += f", {failed} failed."
    return bar_chart(
        ("heals", "Heals", sentence), window,
        {("solid", "healed"): repairs.healed, ("outline", "failed"): repairs.failed},
    )  # fmt: skip


def _times(repairs: RepairSeries, window: PlotWindow) -> Plot:
    slowest = max((each for each in repairs.slow if each is not None), default=None)
    sentence = "No job healed a node."
    if slowest is not None:
        sentence = f"The slowest interval has a 90th percentile of {seconds(slowest)}."
    heading = ("times", "Time to heal", sentence)
    return time_chart(heading, window, repairs.typical, repairs.slow, 90)


def _budgets(scene: Scene, scope: str, window: PlotWindow) -> Plot:
    uses = scene.usage.fullest(scope, window)
    fullest = max((use for use in uses if use is not None), key=_share, default=None)
    since = scene.usage.since
    sentence = "The use of budgets is not known."
    if fullest is not None:
        sentence = f"The fullest budget was {_percent(fullest)} used: {_use(fullest)}."
    note = "Budget use is not stored. This process has observed none yet."
    if since is not None:
        note = f"Budget use is not stored: this process knows it since {instant(since)}."
    known = [use is not None or window.start(i) > scene.now for i, use in enumerate(uses)]
    shares = [None if use is None else use.share for use in uses]
    return Plot(
        "budgets", "Budget use", sentence,
        (
            plot.frame(), *plot.unknown_boxes(known),
            *plot.stacked_bars([("solid", shares)], 1.0),
        ),
        (*plot.scale_labels(1.0, lambda share: f"{share:.0%}"), *plot.time_labels(window)),
        (("solid", "fullest budget"), ("unknown", NOT_KNOWN)),
        ("Time, UTC", "Used", "Fullest budget"),
        plot.table(window, [_use_row(use) for use in uses]),
        note="" if all(known) else note,
    )  # fmt: skip


def _breakers(all_bands: Sequence[BreakerBand], window: PlotWindow) -> Plot:
    bands = sorted(all_bands, key=lambda b: (-b.last_event.timestamp(), b.policy, b.scope))
    shown, more = bands[:MOST_BANDS], len(bands) - MOST_BANDS
    sentence = "No breaker was open."
    if bands:
        names = ", ".join(dict.fromkeys(describe_scope(band.scope) for band in shown))
        sentence = f"Not closed all the time: {names}" + (f" and {more} more." if more > 0 else ".")
    rows = [[(s.begin, s.end, BAND_KINDS[s.state]) for s in band.spans] for band in shown]
    several = len({band.policy for band in bands}) > 1
    names_ = [_band_name(band, several) for band in shown]
    bottom = plot.band_bottom(max(0, len(shown) - 1)) + 4
    labels = [
        PlotLabel(plot.START_X, plot.band_bottom(number) - 15, name, "start")
        for number, name in enumerate(names_)
    ]
    return Plot(
        "breakers", "Breakers", sentence,
        tuple(plot.bands(rows, BAND_HEIGHTS, window)),
        (*labels, *plot.time_labels(window, bottom)) if shown else (),
        (("solid", "open"), ("half", "half-open"), ("closed", "closed"), ("unknown", NOT_KNOWN)),
        ("Time, UTC", "Scope", "State"),
        tuple(_band_rows(shown, names_)),
        height=bottom + 18 if shown else 0,
    )  # fmt: skip


def _band_rows(bands: Iterable[BreakerBand], names: Iterable[str]) -> Iterator[Row]:
    for band, name in zip(bands, names, strict=True):
        for span in band.spans:
            state = NOT_KNOWN if span.state == UNKNOWN else span.state
            when = f"{span.begin.strftime('%m-%d %H:%M')} to {span.end.strftime('%m-%d %H:%M')}"
            yield when, name, state


def _band_name(band: BreakerBand, several: bool) -> str:
    name = describe_scope(band.scope)
    return f"{name} ({band.policy})" if several else name


# -- text -----------------------------------------------------------------------------------------


def _share(use: BudgetUse) -> float:
    return use.share


def _percent(use: BudgetUse) -> str:
    return f"{use.share:.0%}"


def _use(use: BudgetUse) -> str:
    return f"{describe_scope(use.scope)}, {use.used} of {use.limit}"


def _use_row(use: BudgetUse | None) -> Row:
    return (NOT_KNOWN, "") if use is None else (_percent(use), _use(use))
