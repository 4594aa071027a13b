"""The parameters of a page."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from insight.analyses.faults import FaultProperty
from insight.analyses.interval import Interval
from insight.analyses.selection import HistorySelection
from insight.server.requests import read_choice, read_interval, read_least, read_selection
from insight.store.schema import instant, milliseconds
from kubenode.runtime.site.window import PlotWindow

PARAMETERS = (
    *("days", "since", "until", "every"),
    *("by", "cluster", "class", "rule", "node", "job", "min"),
)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The parameters of a page, checked.

    params: those that the address has, for links to other pages
    """

    params: Mapping[str, str]
    selection: HistorySelection
    interval: Interval
    by: FaultProperty
    least: int

    @classmethod
    def read(cls, query: Mapping[str, str], now: datetime) -> "PageRequest":
        """Read the parameters of an address. Empty ones are not given. Raises ParameterError."""
        params = {name: query[name] for name in PARAMETERS if query.get(name)}
        selection = read_selection(params, now)
        return cls(
            params,
            selection,
            read_interval(params, selection),
            read_choice(params, "by", FaultProperty, FaultProperty.CLASS),
            read_least(params),
        )

    @property
    def window(self) -> PlotWindow:
        """Return the intervals that cover the period."""
        begin = instant(self.interval.start_of(milliseconds(self.selection.since)))
        length = self.interval.length
        return PlotWindow(begin, length, -((begin - self.selection.until) // length))
