"""Grafana dashboards: well-formed, and no panel is empty on a real Prometheus."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from support.prometheus import Prometheus, metrics_in

from devtools import grafana

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
Json = dict[str, Any]
BOARDS: dict[str, Json] = {
    path.stem: json.loads(path.read_text()) for path in sorted(grafana.FOLDER.glob("*.json"))
}
UNITS = {"short", "s", "none", "percentunit", "reqps", "ops", "bool_yes_no"}
OF_UNIT = {
    "s": re.compile(r"_seconds(_bucket)?\b"),
    "percentunit": re.compile(r" / clamp_min\("),
    "reqps": re.compile(r"\brate\(\w+(verdicts|requests)_total"),
    "ops": re.compile(r"\brate\(\w+_total"),
}
"""What a query has whose unit this is; a rate of anything else has no other unit."""


def panels(board: Json) -> list[Json]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def targets() -> Iterator[tuple[str, str, Json, str]]:
    for name, board in BOARDS.items():
        for panel in panels(board):
            for target in panel["targets"]:
                yield name, panel["title"], panel, target["expr"]


EACH = [pytest.param(panel, expr, id=f"{name}-{title}") for name, title, panel, expr in targets()]
each_board = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)


def test_there_is_a_board_for_each_view() -> None:
    assert set(BOARDS) == {"kubenode-defender", "kubenode-healing", "kubenode-machines"}
    assert len(EACH) > 40


def test_the_files_are_what_their_generator_writes() -> None:
    for path, text in grafana.wanted().items():
        assert path.read_text() == text, f"run python -m devtools.grafana: {path.name}"
    assert {path.name for path in grafana.wanted()} == {f"{name}.json" for name in BOARDS}


@each_board
def test_numbers_are_unique_and_no_panel_lies_over_another(board: Json) -> None:
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(set(numbers)) == len(numbers)
    assert len({panel["title"] for panel in panels(board)}) == len(panels(board))
    places = [panel["gridPos"] for panel in board["panels"]]
    assert all(p["x"] >= 0 and p["x"] + p["w"] <= 24 and p["h"] > 0 for p in places)
    for one, two in combinations(places, 2):
        beside = one["x"] + one["w"] <= two["x"] or two["x"] + two["w"] <= one["x"]
        below = one["y"] + one["h"] <= two["y"] or two["y"] + two["h"] <= one["y"]
        assert beside or below, (one, two)


@each_board
def test_the_data_source_is_a_variable_and_every_panel_says_what_it_shows(board: Json) -> None:
    (variable,) = board["templating"]["list"]
    assert (variable["name"], variable["type"], variable["query"]) == (
        "datasource", "datasource", "prometheus",
    )  # fmt: skip
    assert board["uid"]
    assert board["schemaVersion"] >= 39
    for panel in panels(board):
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["description"].endswith("."), panel["title"]
        assert panel["type"] in ("stat", "timeseries", "state-timeline")
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters))
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
            assert (
                "$__rate_interval" in target["expr"]
                or "[" not in target["expr"]
                or ("[24h]" in target["expr"])
            )


@pytest.mark.parametrize(("panel", "expr"), EACH)
def test_the_unit_is_that_of_the_query(panel: Json, expr: str) -> None:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    assert unit in UNITS
    for name, pattern in OF_UNIT.items():
        if name == "reqps":
            continue
        has = bool(pattern.search(expr)) and not (name == "ops" and "histogram_quantile" in expr)
        assert has == (unit == name or (name == "ops" and unit == "reqps")), (unit, expr)
    if unit == "reqps":
        assert OF_UNIT["reqps"].search(expr)


def test_boards_link_to_one_another() -> None:
    for board in BOARDS.values():
        assert all(link["url"].removeprefix("/d/") in BOARDS for link in board["links"])


@pytest.mark.parametrize(("panel", "expr"), EACH)
def test_the_panel_has_data(world: Any, panel: Json, expr: str) -> None:
    prometheus: Prometheus = world.prometheus
    assert metrics_in(expr) <= prometheus.names()
    found = prometheus.until(expr.replace("$__rate_interval", "30m"))
    unit = panel["fieldConfig"]["defaults"]["unit"]
    values = [value for _, value in found]
    assert all(value >= 0 for value in values)
    if unit == "bool_yes_no" or panel["fieldConfig"]["defaults"]["mappings"]:
        assert set(values) <= {0.0, 1.0, 2.0}
    for target in panel["targets"]:
        if target["expr"] == expr:
            legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert all(legend <= set(labels) for labels, _ in found), legend


def test_what_happened_is_seen(world: Any) -> None:
    prometheus: Prometheus = world.prometheus

    def figure(expr: str) -> float:
        return prometheus.until(expr)[0][1]

    assert figure('max(kubenode_defender_nodes{health="Healthy"}) <= 38') <= 38
    assert figure('sum(kubenode_job_moves_total{phase="Succeeded"}) >= 1') >= 1
    refused = 'kubenode_defender_verdicts_total{call="ask",reason="ConcurrencyLimit"}'
    assert figure(f"{refused} >= 1") >= 1
    used = 'max(kubenode_defender_budget_used{kind="maxConcurrent",scope="cluster"})'
    assert figure(f"{used} == 1") == 1
