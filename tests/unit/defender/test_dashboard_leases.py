"""The ages of Leases, by the clock of the reader."""

from datetime import UTC, datetime, timedelta

from defender.dashboard.leases import RenewalAges

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)


def test_age_of_a_lease_is_computed_from_its_time_at_first_and_measured_afterwards() -> None:
    ages = RenewalAges()
    ages.update({"a": NOW - timedelta(seconds=40), "fast": NOW + timedelta(hours=1)}, NOW, 100.0)
    assert ages.ages(110.0) == {"a": 50.0, "fast": 10.0}
    ages.update({"a": NOW - timedelta(seconds=40), "fast": NOW + timedelta(hours=1)}, NOW, 160.0)
    assert ages.ages(160.0) == {"a": 100.0, "fast": 60.0}, "neither was renewed"
    ages.update({"a": NOW - timedelta(hours=9)}, NOW, 200.0)
    assert ages.ages(200.0) == {"a": 0.0}, "renewed by a slow clock, and the other is gone"
