"""Which faults and repairs an analysis covers."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Table, and_

from insight.store.schema import milliseconds


@dataclass(frozen=True, slots=True)
class HistorySelection:
    """From `since` to before `until`, and with these values; "" is any value."""

    since: datetime
    until: datetime
    cluster: str = ""
    fault_class: str = ""
    rule: str = ""
    node: str = ""
    job: str = ""

    @property
    def middle(self) -> datetime:
        return self.since + (self.until - self.since) / 2

    def covers(self, table: Table) -> ColumnElement[bool]:
        """Return the condition on the rows of a table."""
        since, until = milliseconds(self.since), milliseconds(self.until)
        equal = self.list_conditions(table, ("cluster", "fault_class", "rule", "node", "job"))
        return and_(table.c.time >= since, table.c.time < until, *equal)

    def list_conditions(self, table: Table, names: Iterable[str]) -> list[ColumnElement[bool]]:
        """Return a condition for each of these columns that has a selected value."""
        values = ((table.c[name], getattr(self, name)) for name in names)
        return [column == value for column, value in values if value]
