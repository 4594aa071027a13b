"""Plots of the dashboard: their values from stored objects, and what they say is not known."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from support.dashboard_scenes import NOW, a_scene
from support.dashboard_world import a_job, a_node

from defender.dashboard.pages import PAGES
from defender.dashboard.render import Renderer
from defender.dashboard.scene import Scene
from defender.dashboard.views import plots
from defender.decision.breaker.record import MOST_CHANGES
from defender.decision.budgets import LimitBudget
from defender.overview.bands import UNKNOWN, breaker_bands
from defender.overview.records import RecordView
from defender.overview.series import collect_repairs, percentile
from defender.overview.usage import RETENTION, SAMPLE_INTERVAL, UsageHistory
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.defenderpolicy import BreakerChange, BreakerState
from kubenode.runtime.site import plot
from kubenode.runtime.site.plot import Plot
from kubenode.runtime.site.window import PlotWindow

WINDOW = PlotWindow.until(NOW, timedelta(hours=6))
ZONE_A, ZONE_B = "topology.kubernetes.io/zone=eu-1a", "topology.kubernetes.io/zone=eu-1b"


def job(node: str, phase: str, ago: float, took: float | None = None, **given: Any) -> Any:
    """A job with a fault `ago` seconds before NOW that was verified after `took` seconds."""
    began = NOW - timedelta(seconds=ago)
    times = {"faultSeen": format_time(began)}
    if took is not None:
        end = format_time(began + timedelta(seconds=took))
        times |= {"closed": end} | ({"verified": end} if phase == "Succeeded" else {})
    body = a_job(node, phase, name=f"{node}-{phase}-{ago:.0f}", **given)
    body["status"]["timeline"] = times
    return body


def budget(scope: str, used: int, limit: int, kind: str = "maxConcurrent") -> Any:
    return LimitBudget("default", 0, scope, kind, frozenset(), used, limit, max(0, limit - used))


def change(scope: str, state: BreakerState, ago: float) -> BreakerChange:
    since = NOW - timedelta(minutes=ago)
    return BreakerChange(scope=scope, state=state, since=since, why="too many")


def drawn(scene: Scene, scope: plots.PlotScope | None = None, **params: str) -> dict[str, Plot]:
    shown = plots.view_plots(scene, scope or plots.of_fleet(), params)
    return {each.key: each for each in shown}


def html(made: Plot) -> str:
    return Renderer().part(made, "")


# -- series


def test_window_ends_with_the_interval_of_the_present() -> None:
    assert WINDOW.end == datetime(2026, 11, 22, 3, 15, tzinfo=UTC)
    assert WINDOW.place(NOW) == WINDOW.intervals - 1
    assert WINDOW.place(WINDOW.begin) == 0
    assert WINDOW.place(WINDOW.end) is None
    assert WINDOW.place(None) is None


def test_faults_and_heals_are_counted_in_their_intervals() -> None:
    scene = a_scene(
        [a_node("n1")],
        [
            job("n1", "Succeeded", 7200, 600),
            job("n2", "Succeeded", 7200, 1200),
            job("n3", "Failed", 7200, 600),
            job("n4", "Running", 60),
            job("n5", "Succeeded", 90000, 600),
        ],
    )
    series = collect_repairs(scene.jobs.values(), (), WINDOW)
    at = WINDOW.place(NOW - timedelta(hours=2))
    assert at is not None
    assert (sum(series.begun), series.begun[at], series.begun[-2]) == (4, 3, 1)
    assert (series.healed[at], series.healed[at + 1]) == (1, 1)
    assert (series.failed[at], sum(series.failed)) == (1, 1)
    assert (series.typical[at], series.slow[at + 1], series.slow[0]) == (600.0, 1200.0, None)


def test_dry_runs_are_no_faults_with_a_job() -> None:
    scene = a_scene([a_node("n1")], [job("n1", "Shadowed", 60, 30, mode="DryRun")])
    record = msgspec.convert(
        {
            "metadata": {"name": "n1"},
            "spec": {
                "dryRuns": [
                    {"remedier": "r", "recent": [{"at": "2026-11-22T02:00:00Z"}]},
                ]
            },
        },
        RecordView,
        strict=False,
    )
    faults = drawn(replace(scene, records={"n1": record}))["faults"]
    assert faults.sentence == (
        "No faults with a job began, and 1 fault that rules in DryRun matched."
    )


@pytest.mark.parametrize(("percent", "value"), [(50, 2.0), (90, 4.0), (100, 4.0)])
def test_percentile_is_the_nearest_rank(percent: int, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], percent) == value
    assert percentile([], percent) is None


# -- budgets: what is not stored


def test_budget_use_before_the_process_is_not_known_and_never_zero() -> None:
    scene = a_scene([a_node("n1")])
    scene.usage.record(NOW, [budget("cluster", 0, 4)])
    made = drawn(scene)["budgets"]
    assert made.rows[0][1:] == ("not known", "")
    assert made.rows[-1][1:] == ("0%", "cluster, 0 of 4")
    assert [shape.kind for shape in made.shapes] == ["axis", "unknown"]
    assert made.note.endswith("knows it since 2026-11-22 03:00:00 UTC.")


def test_a_process_without_observations_says_so() -> None:
    made = drawn(a_scene([a_node("n1")]))["budgets"]
    assert made.sentence == "The use of budgets is not known."
    assert {row[1] for row in made.rows} == {"not known"}


def test_an_interval_keeps_the_fullest_budget() -> None:
    usage = UsageHistory()
    usage.record(NOW, [budget("cluster", 1, 4), budget(ZONE_A, 1, 2), budget(ZONE_B, 0, 2)])
    usage.record(NOW + timedelta(seconds=15), [budget("cluster", 0, 4), budget(ZONE_A, 0, 2)])
    fullest = {s: usage.fullest(s, WINDOW)[-1] for s in ("", "cluster", ZONE_A, ZONE_B, "rack=r")}
    used = {scope: use and (use.scope, use.used) for scope, use in fullest.items()}
    assert used == {
        "": (ZONE_A, 1), "cluster": ("cluster", 1), ZONE_A: (ZONE_A, 1), ZONE_B: (ZONE_B, 0),
        "rack=r": None,
    }  # fmt: skip


def test_a_minimum_of_healthy_nodes_is_no_use_of_permits() -> None:
    usage = UsageHistory()
    usage.record(NOW, [budget("cluster", 90, 100, "minHealthy"), budget("cluster", 0, 0)])
    assert usage.fullest("", WINDOW)[-1] is None


@pytest.mark.exhaustive
def test_the_record_of_use_is_bounded_in_time_and_scopes() -> None:
    usage = UsageHistory()
    scopes = [budget(f"topology.kubernetes.io/zone={n}", 1, 2) for n in range(300)]
    for step in range(RETENTION // SAMPLE_INTERVAL * 2):
        usage.record(NOW + SAMPLE_INTERVAL * step, scopes)
    assert len(usage._samples) == RETENTION // SAMPLE_INTERVAL + 1
    assert len(usage._samples[-1].fullest) <= 101


# -- breakers


def test_bands_have_the_states_between_changes() -> None:
    changes = [
        change(ZONE_A, BreakerState.OPEN, 60),
        change(ZONE_B, BreakerState.CLOSED, 600),
        change(ZONE_A, BreakerState.HALF_OPEN, 40),
        change(ZONE_A, BreakerState.CLOSED, 10),
    ]
    (band,) = breaker_bands("default", changes, WINDOW.begin, NOW)
    assert band.scope == ZONE_A
    assert [span.state for span in band.spans] == ["Closed", "Open", "HalfOpen", "Closed"]
    assert band.spans[0].begin == WINDOW.begin
    assert band.spans[-1].end == NOW
    assert [(s.end - s.begin) // timedelta(minutes=1) for s in band.spans[1:]] == [20, 30, 10]


def test_a_breaker_that_opened_before_the_window_is_open_from_its_begin() -> None:
    (band,) = breaker_bands("default", [change(ZONE_A, BreakerState.OPEN, 6000)], WINDOW.begin, NOW)
    assert [(s.begin, s.state) for s in band.spans] == [(WINDOW.begin, "Open")]


def test_states_before_a_full_history_are_not_known() -> None:
    changes = [change(ZONE_A, BreakerState.OPEN, 100 - n) for n in range(MOST_CHANGES)]
    (band,) = breaker_bands("default", changes, WINDOW.begin, NOW)
    assert band.spans[0].state == UNKNOWN


def test_the_page_shows_breakers_of_its_scope_alone() -> None:
    scene = a_scene([a_node("n1", "eu-1a"), a_node("n2", "eu-1b")])
    for watch in scene.control.breakers.watches():
        watch.changes.append(change(ZONE_B, BreakerState.OPEN, 30))
    fleet = drawn(scene)["breakers"]
    assert fleet.sentence == "Not closed all the time: zone eu-1b."
    assert "solid" in [shape.kind for shape in fleet.shapes]
    zone = drawn(scene, plots.of_zone(scene, "eu-1a"))["breakers"]
    assert (zone.sentence, zone.shapes) == ("No breaker was open.", ())
    assert "breakers" in drawn(scene, plots.of_node(scene, "n2"))
    assert "breakers" not in drawn(scene, plots.of_node(scene, "n1"))


# -- scopes


def test_zone_rule_and_node_count_their_own_jobs() -> None:
    scene = a_scene(
        [a_node("n1", "eu-1a"), a_node("n2", "eu-1b")],
        [job("n1", "Running", 60), job("n2", "Running", 90, rule="disk-pressure")],
    )

    def begun(scope: plots.PlotScope) -> str:
        return drawn(scene, scope)["faults"].sentence

    one = "1 fault with a job began."
    assert begun(plots.of_fleet()) == "2 faults with a job began."
    assert begun(plots.of_zone(scene, "eu-1b")) == one
    assert begun(plots.of_node(scene, "n1")) == one
    assert begun(plots.of_rule("disk-pressure")) == one
    assert begun(plots.of_rule("nothing")) == "No faults with a job began."


def test_an_unknown_length_is_the_usual_one() -> None:
    assert plots.hours_of({"hours": "<script>"}) == "6"
    old = a_scene([a_node("n1")], [job("n1", "Running", 90000)])
    assert drawn(old)["faults"].sentence == "No faults with a job began."
    assert drawn(old, hours="72")["faults"].sentence == "1 fault with a job began."


# -- shapes and tables


def test_series_differ_in_shape() -> None:
    shapes = plot.stacked_bars([("solid", [1, 0]), ("outline", [1, 2])], 2.0)
    assert [shape.kind for shape in shapes] == ["solid", "outline"]
    full, above = (re.findall(r"V([\d.]+)H", shape.path) for shape in shapes)
    assert full == [f"{plot.BOTTOM:.1f}"]
    assert above == ["51.0", f"{plot.BOTTOM:.1f}"], "the second series stands on the first one"


@pytest.mark.parametrize(
    ("values", "top"), [([], 1.0), ([0.0], 1.0), ([3.0, None], 5.0), ([11.0], 20.0), ([50], 50.0)]
)
def test_the_scale_reaches_the_greatest_value(values: list[float | None], top: float) -> None:
    assert plot.scale_top(values) == top


@pytest.mark.parametrize(("seconds", "top"), [(0, 10), (11, 30), (3601, 7200), (90000, 172800)])
def test_the_scale_of_times_reads_well(seconds: float, top: float) -> None:
    assert plot.time_scale_top(seconds) == top


def test_equal_rows_of_a_table_are_one() -> None:
    values = [("0",)] * 23 + [("2",)]
    assert plot.table(WINDOW, values) == (
        ("21:15 to 03:00", "0"),
        ("03:00 to 03:15", "2"),
    )


def test_every_plot_has_a_description_and_a_table() -> None:
    for made in drawn(a_scene([a_node("n1")], [job("n1", "Succeeded", 600, 60)])).values():
        text = html(made)
        assert f"<h3>{made.title}</h3>" in text
        assert "style=" not in text
        if made.rows:
            assert f'<summary>Table<span class="unseen"> of {made.title}</span>' in text
            assert 'role="img" aria-label="' in text


def test_fleet_zone_and_node_pages_have_plots() -> None:
    scene = a_scene([a_node("n1", "eu-1a")])
    asked = {"fleet": {}, "zone": {"zone": "eu-1a"}, "node": {"name": "n1"}}
    for page in PAGES:
        if page.name in asked:
            assert "hours" in page.asks
            view = page.build(scene, asked[page.name])
            assert view is not None
            assert [part.key for part in view["plots"]][:3] == ["faults", "heals", "times"]
