"""A dashboard as rows of panels, rendered as JSON in the schema of Grafana 10 and later.

Panels are placed from left to right and wrap, and are numbered in order. The data source is a
variable, so that any Prometheus can be selected.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

COLUMNS = 24
SCHEMA = 39
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
GREEN, YELLOW, ORANGE, RED = "green", "yellow", "orange", "red"
YES_NO = (("0", "no", RED), ("1", "yes", GREEN))
NO_YES = (("0", "no", GREEN), ("1", "yes", RED))
BAD = ((None, GREEN), (1, RED))
Kind = Literal["stat", "timeseries", "state-timeline"]


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel.

    expr: PromQL, which may use $__rate_interval.
    legend: may use {{label}}; "" for the default of Grafana.
    """

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of a dashboard.

    unit: a unit of Grafana: short, s, percentunit, ops, bool_yes_no, none.
    width, height: in cells of Grafana's grid of 24 columns.
    steps: (lowest value, colour); the first step begins at None.
    mapping: (value, text, colour).
    stack: draw areas on top of each other, for parts of a whole.
    lowest, highest: the ends of the axis; None for those that Grafana chooses.
    """

    title: str
    text: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: Kind = "timeseries"
    width: int = 8
    height: int = 8
    steps: tuple[tuple[float | None, str], ...] = ((None, GREEN),)
    mapping: tuple[tuple[str, str, str], ...] = ()
    stack: bool = False
    lowest: float | None = 0
    highest: float | None = None


@dataclass(frozen=True, slots=True)
class BoardRow:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Board:
    uid: str
    title: str
    text: str
    rows: tuple[BoardRow, ...]
    links: tuple[tuple[str, str], ...] = field(default=())
    """(title, uid) of other dashboards."""

    def to_json(self) -> dict[str, Any]:
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.text,
            "tags": ["kubenode"],
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "timezone": "browser",
            "links": [
                {"title": title, "type": "link", "url": f"/d/{uid}", "keepTime": True}
                for title, uid in self.links
            ],
            "templating": {"list": [_DATASOURCE]},
            "annotations": {"list": []},
            "panels": list(_placed(self.rows)),
        }


_DATASOURCE = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
    "current": {},
    "hide": 0,
    "refresh": 1,
    "regex": "",
    "multi": False,
    "includeAll": False,
    "options": [],
}


def _placed(rows: Sequence[BoardRow]) -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for row in rows:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            "panels": [],
        }
        top += 1
        column = tallest = 0
        for panel in row.panels:
            if column + panel.width > COLUMNS:
                top, column, tallest = top + tallest, 0, 0
            number += 1
            where = {"x": column, "y": top, "w": panel.width, "h": panel.height}
            yield _panel(panel, number, where)
            column, tallest = column + panel.width, max(tallest, panel.height)
        top += tallest


def _panel(panel: Panel, number: int, where: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": where,
        "targets": [_target(panel, index) for index in range(len(panel.queries))],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
    }


def _target(panel: Panel, index: int) -> dict[str, Any]:
    query = panel.queries[index]
    return {
        "refId": chr(ord("A") + index),
        "datasource": SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "instant": panel.kind == "stat",
        "range": panel.kind != "stat",
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    steps = [{"value": value, "color": colour} for value, colour in panel.steps]
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "noValue": "no data",
        "thresholds": {"mode": "absolute", "steps": steps},
        "mappings": [_mapping(panel)] if panel.mapping else [],
    }
    if panel.lowest is not None:
        defaults["min"] = panel.lowest
    if panel.highest is not None:
        defaults["max"] = panel.highest
    if panel.kind == "stat":
        return defaults | {"color": {"mode": "thresholds"}}
    if panel.kind == "state-timeline":
        custom: dict[str, Any] = {"fillOpacity": 70, "lineWidth": 0}
        return defaults | {"color": {"mode": "thresholds"}, "custom": custom}
    custom = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 30 if panel.stack else 0,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if panel.stack else "none", "group": "A"},
    }
    return defaults | {"color": {"mode": "palette-classic"}, "custom": custom}


def _mapping(panel: Panel) -> dict[str, Any]:
    options = {
        value: {"text": text, "color": colour, "index": index}
        for index, (value, text, colour) in enumerate(panel.mapping)
    }
    return {"type": "value", "options": options}


_TOOLTIP = {"mode": "multi", "sort": "desc"}
_OPTIONS: dict[Kind, dict[str, Any]] = {
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "background",
        "graphMode": "none",
        "textMode": "auto",
        "justifyMode": "auto",
        "orientation": "auto",
    },
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": _TOOLTIP,
    },
    "state-timeline": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": _TOOLTIP,
        "mergeValues": True,
        "showValue": "auto",
        "rowHeight": 0.8,
        "alignValue": "left",
    },
}


def stat(
    title: str,
    text: str,
    expr: str,
    *,
    unit: str = "short",
    steps: tuple[tuple[float | None, str], ...] = ((None, GREEN),),
    mapping: tuple[tuple[str, str, str], ...] = (),
    width: int = 3,
) -> Panel:
    """Return a panel with a single number."""
    return Panel(title, text, (Query(expr),), unit, "stat", width, 4, steps=steps, mapping=mapping)


def quantiles(name: str, *, by: str = "") -> tuple[Query, ...]:
    """Return the median and the 99th percentile of a histogram.

    by: a label to group by; "" for none.
    """
    group = f"le, {by}" if by else "le"
    suffix = f" {{{{{by}}}}}" if by else ""
    return tuple(
        Query(
            f"histogram_quantile({q}, sum by ({group}) (rate({name}_bucket[$__rate_interval])))",
            f"p{int(q * 100)}{suffix}",
        )
        for q in (0.5, 0.99)
    )
