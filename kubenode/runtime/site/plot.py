"""Plots as shapes of an SVG, with the table of their values. Pure.

A template writes the shapes, so that every text is escaped. Series differ in shape and not only in
colour: full or outlined bars, a mark with a whisker. What is not known is a dashed box.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, TypeVar

from kubenode.runtime.site.window import PlotWindow

WIDE, HIGH = 340.0, 112.0
START_X, END_X, TOP, BOTTOM = 38.0, 336.0, 8.0, 94.0
TICKS = 4
"""Number of parts of the time axis between labels."""
BAND_HEIGHT = 30.0
TIME_TOPS = (10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0)
GAP = 1.5
LEGEND_SHAPES = {
    "solid": "M1 0H11V10H1z",
    "outline": "M1.7 .7H10.3V9.3H1.7z",
    "half": "M1 5H11V10H1z",
    "closed": "M1 8.6H11V10H1z",
    "unknown": "M1.7 .7H10.3V9.3H1.7z",
    "typical": "M6 1l4 4-4 4-4-4z",
    "whisker": "M6 10V1M2 1h8",
}
"""Shapes of the legend of plots by their class."""

Values = Sequence[float | None]
Row = tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlotShape:
    """A path. kind: its class, which the legend explains."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class PlotLabel:
    """A text. anchor: start, middle or end of the text is at x."""

    x: float
    y: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot.

    sentence: what it shows, which is also the description of the picture.
    note: since when the values are known, "" if all are.
    legend: (class of a shape, its meaning).
    columns, rows: the values as a table; equal rows in sequence are one row.
    """

    template: ClassVar[str] = "parts/plot.html"
    key: str
    title: str
    sentence: str
    shapes: tuple[PlotShape, ...]
    labels: tuple[PlotLabel, ...]
    legend: tuple[tuple[str, str], ...]
    columns: Row
    rows: tuple[Row, ...]
    note: str = ""
    height: float = HIGH


# -- axes -----------------------------------------------------------------------------------------


def time_labels(window: PlotWindow, bottom: float = BOTTOM) -> Iterator[PlotLabel]:
    """Yield the labels of the time axis."""
    for part in range(TICKS + 1):
        index = window.intervals * part // TICKS
        anchor = "start" if part == 0 else "end" if part == TICKS else "middle"
        yield PlotLabel(
            place(window, window.start(index)), bottom + 13, clock(window, index), anchor
        )


def clock(window: PlotWindow, index: int) -> str:
    """Return the start of an interval, with as much of the date as the window needs."""
    length = window.interval * window.intervals
    if window.interval >= timedelta(days=1):
        form = "%Y-%m-%d" if length > timedelta(days=300) else "%m-%d"
    else:
        form = "%m-%d %H:%M" if length > timedelta(hours=24) else "%H:%M"
    return window.start(index).strftime(form)


def place(window: PlotWindow, at: datetime) -> float:
    """Return the horizontal place of a time."""
    share = (at - window.begin) / (window.end - window.begin)
    return round(START_X + share * (END_X - START_X), 1)


def scale_top(values: Values) -> float:
    """Return the greatest value of the scale: 1, 2 or 5 times a power of ten."""
    most, power = max((v for v in values if v is not None), default=0.0), 1.0
    while True:
        for step in (1.0, 2.0, 5.0):
            if step * power >= most:
                return step * power
        power *= 10


def time_scale_top(seconds: float) -> float:
    """Return the greatest value of a scale of seconds: one that reads well, else whole days."""
    return next((top for top in TIME_TOPS if top >= seconds), -(-seconds // 86400) * 86400.0)


def scale_labels(top: float, write: Callable[[float], str]) -> tuple[PlotLabel, ...]:
    return (
        PlotLabel(START_X - 4, BOTTOM, write(0), "end"),
        PlotLabel(START_X - 4, TOP + 6, write(top), "end"),
    )


def frame() -> PlotShape:
    """Return the lines at zero and at the top of the scale."""
    return PlotShape("axis", f"M{START_X} {BOTTOM}H{END_X}M{START_X} {TOP}H{END_X}")


# -- shapes ---------------------------------------------------------------------------------------


def stacked_bars(series: Sequence[tuple[str, Values]], top: float) -> list[PlotShape]:
    """Draw series of (class, values) as bars on top of each other."""
    base = [0.0] * max(len(values) for _, values in series)
    shapes = []
    for kind, values in series:
        path = ""
        for index, value in enumerate(values):
            if value:
                path += _bar(index, len(values), base[index] / top, (base[index] + value) / top)
                base[index] += value
        shapes.append(PlotShape(kind, path))
    return [shape for shape in shapes if shape.path]


def whiskers(low: Values, high: Values, top: float) -> list[PlotShape]:
    """Draw a diamond at each low value and a line with a bar up to the high one."""
    marks, lines = "", ""
    for index, (typical, slow) in enumerate(zip(low, high, strict=True)):
        if typical is None or slow is None:
            continue
        x, y, y_high = middle(index, len(low)), _height(typical / top), _height(slow / top)
        marks += f"M{x} {y - 3.5:.1f}l3.5 3.5-3.5 3.5-3.5-3.5z"
        lines += f"M{x} {y}V{y_high}M{x - 4:.1f} {y_high}h8"
    return [PlotShape("whisker", lines), PlotShape("typical", marks)] if marks else []


def unknown_boxes(known: Sequence[bool]) -> list[PlotShape]:
    """Draw a dashed box over each run of intervals whose values are not known."""
    path = "".join(
        _box(_edge(first, len(known)), _edge(end, len(known)), TOP, BOTTOM)
        for first, end, is_known in runs(known)
        if not is_known
    )
    return [PlotShape("unknown", path)] if path else []


def bands(
    rows: Sequence[Sequence[tuple[datetime, datetime, str]]],
    heights: Sequence[tuple[str, float]],
    window: PlotWindow,
) -> list[PlotShape]:
    """Draw one band for each row of (begin, end, kind).

    heights: by kind, the part of the band that it fills.
    """
    shapes = []
    for kind, part in heights:
        path = "".join(
            _span(place(window, begin), place(window, end), band_bottom(number), part)
            for number, row in enumerate(rows)
            for begin, end, its_kind in row
            if its_kind == kind
        )
        shapes.append(PlotShape(kind, path))
    return [shape for shape in shapes if shape.path]


def band_bottom(number: int) -> float:
    return TOP + BAND_HEIGHT * (number + 1)


def _span(begin: float, end: float, bottom: float, part: float) -> str:
    """Return a box of at least one unit, so that a short time can be seen."""
    return _box(begin, max(end, begin + 1), bottom - 12 * part, bottom)


def _bar(index: int, count: int, low: float, high: float) -> str:
    gap = min(GAP, (END_X - START_X) / count / 5)
    begin, end = _edge(index, count) + gap, _edge(index + 1, count) - gap
    return _box(begin, end, _height(high), _height(low))


def _box(begin: float, end: float, top: float, bottom: float) -> str:
    return f"M{begin:.1f} {top:.1f}H{end:.1f}V{bottom:.1f}H{begin:.1f}z"


def _edge(index: int, count: int) -> float:
    return START_X + (END_X - START_X) * index / count


def middle(index: int, count: int) -> float:
    return round(_edge(index, count) + (END_X - START_X) / count / 2, 1)


def _height(share: float) -> float:
    return round(BOTTOM - share * (BOTTOM - TOP), 1)


# -- tables ---------------------------------------------------------------------------------------


def runs(values: Sequence[T]) -> Iterator[tuple[int, int, T]]:
    """Yield (first, end, value) for each run of equal values."""
    first = 0
    for index in range(1, len(values) + 1):
        if index == len(values) or values[index] != values[first]:
            yield first, index, values[first]
            first = index


def table(window: PlotWindow, values: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows of a table: time and values of each run of equal values."""
    return tuple(
        (f"{clock(window, first)} to {clock(window, end)}", *row)
        for first, end, row in runs(values)
    )
