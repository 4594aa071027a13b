"""Charts over the intervals of a window, with their tables. Pure."""

from collections.abc import Mapping, Sequence

from kubenode.runtime.site import plot
from kubenode.runtime.site.plot import Plot, Row, Values
from kubenode.runtime.site.text import seconds
from kubenode.runtime.site.window import PlotWindow

TIME_COLUMN = "Time, UTC"
Series = Mapping[tuple[str, str], Sequence[int]]
"""Values of the intervals by the kind of their shape and their meaning."""


def bar_chart(
    heading: tuple[str, str, str], window: PlotWindow, series: Series, top: float | None = None
) -> Plot:
    """Draw series as stacked bars.

    heading: key, title and sentence
    top: greatest value of the scale, None for one that fits
    """
    sums = [sum(each) for each in zip(*series.values(), strict=True)]
    top = top or plot.scale_top(sums)
    bars = plot.stacked_bars([(kind, values) for (kind, _), values in series.items()], top)
    values = [tuple(str(v) for v in row) for row in zip(*series.values(), strict=True)]
    return Plot(
        *heading,
        (plot.frame(), *bars),
        (*plot.scale_labels(top, whole), *plot.time_labels(window)),
        tuple(series),
        (TIME_COLUMN, *(meaning.capitalize() for _, meaning in series)),
        plot.table(window, values),
    )


def time_chart(
    heading: tuple[str, str, str], window: PlotWindow, typical: Values, slow: Values, percent: int
) -> Plot:
    """Draw the median of times and a higher percentile, in seconds.

    percent: of the higher percentile
    """
    slowest = max((each for each in slow if each is not None), default=0.0)
    top = plot.time_scale_top(slowest)
    values: list[Row] = [
        (_seconds(low), _seconds(high)) for low, high in zip(typical, slow, strict=True)
    ]
    return Plot(
        *heading,
        (plot.frame(), *plot.whiskers(typical, slow, top)),
        (*plot.scale_labels(top, _scale_seconds), *plot.time_labels(window)),
        (("typical", "median (p50)"), ("whisker", f"{percent}th percentile (p{percent})")),
        (TIME_COLUMN, "p50", f"p{percent}"),
        plot.table(window, values),
    )


def whole(value: float) -> str:
    return f"{value:.0f}"


def many(count: int, noun: str) -> str:
    return f"{count or 'No'} {noun}{'' if count == 1 else 's'}"


def _seconds(value: float | None) -> str:
    return "none" if value is None else seconds(value)


def _scale_seconds(value: float) -> str:
    """Return a short text for the scale: `0`, `50 s`, `8 min`."""
    if not value:
        return "0"
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"
