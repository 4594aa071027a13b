"""The analyses in a real PostgreSQL give what a computation from the raw events gives."""

import pytest
from sqlalchemy import Engine
from support.insight_checks import (
    check_faults,
    check_healing,
    check_incidents,
    check_lemons,
    check_sums,
    check_trend,
    filled,
)
from support.insight_rollups import check_archive, check_figures, roll_up

from insight.analyses.faults import FaultProperty
from insight.analyses.interval import Interval

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_every_analysis_equals_a_computation_from_the_events(engine: Engine) -> None:
    filled(engine)
    check_healing(engine)
    check_lemons(engine)
    check_incidents(engine)
    for interval in Interval:
        check_trend(engine, interval)
    for by in FaultProperty:
        check_sums(engine, by)
        for interval in Interval:
            check_faults(engine, by, interval)


def test_roll_ups_equal_a_computation_from_the_events(engine: Engine) -> None:
    filled(engine)
    roll_up(engine)
    check_figures(engine)
    check_archive(engine)
