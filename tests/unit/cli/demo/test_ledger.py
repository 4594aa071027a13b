"""The truth: when something is really wrong on a node, and until when an act is no false one."""

from simulation.demo.faults import Kind
from simulation.demo.ledger import EndedBy, Ledger


def test_noise_is_no_fault() -> None:
    ledger = Ledger()
    ledger.inject("a", Kind.FLAP, 1.0)
    assert not ledger.faulty("a", 2.0)


def test_a_fault_that_nobody_reported_is_over_when_it_ends() -> None:
    ledger = Ledger(slack=1.0)
    ledger.inject("a", Kind.CLOCK, 1.0)
    ledger.end("a", [Kind.CLOCK], 5.0, EndedBy.ITSELF)
    assert ledger.faulty("a", 5.9)
    assert not ledger.faulty("a", 6.1)


def test_a_reported_fault_is_over_when_its_report_is_withdrawn() -> None:
    ledger = Ledger(slack=1.0)
    ledger.inject("a", Kind.CLOCK, 1.0)
    ledger.signalled("a", 1.5)
    ledger.end("a", [Kind.CLOCK], 5.0, EndedBy.AGENT)
    assert ledger.faulty("a", 9.0)
    ledger.withdrawn("a", 7.0)
    assert ledger.faulty("a", 7.9)
    assert not ledger.faulty("a", 8.1)


def test_no_fault_is_over_before_it_began() -> None:
    ledger = Ledger()
    ledger.inject("a", Kind.CLOCK, 5.0)
    assert not ledger.faulty("a", 4.0)
    assert not ledger.faulty("b", 6.0)


def test_a_report_taken_back_ends_no_fault_that_goes_on() -> None:
    ledger = Ledger()
    ledger.inject("a", Kind.DEADLOCK, 1.0)
    ledger.signalled("a", 1.5)
    ledger.withdrawn("a", 2.0)
    assert ledger.faulty("a", 99.0)
