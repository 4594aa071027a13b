"""The time that an analysis covers."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Table, and_

from insight.store.schema import milliseconds


@dataclass(frozen=True, slots=True)
class Period:
    """From `since` to before `until`."""

    since: datetime
    until: datetime

    def covers(self, table: Table) -> ColumnElement[bool]:
        """Return the condition on the time of a table's rows."""
        since, until = milliseconds(self.since), milliseconds(self.until)
        return and_(table.c.time >= since, table.c.time < until)
