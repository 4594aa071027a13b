"""What every run of tests does: build what CI needs first, and say what was left out."""

import gc
import logging
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings
from support.components import MissingComponent, control_plane_folder, in_ci

# At a desk the unit tests must stay quick and look elsewhere each time; CI looks at the same
# examples each time, and some more. How busy the machine is tells nothing of the code.
settings.register_profile(
    "desk", max_examples=33, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci", settings.get_profile("desk"), max_examples=50, derandomize=True, database=None
)
settings.load_profile("ci" if in_ci() else "desk")


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """A program under test sets up the logs of the whole process: the next test has its own."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that run side by side are told apart by their ids, which every process makes anew."""
    moving = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if moving:
        raise pytest.UsageError(f"an address is part of a test's id, give it another: {moving[0]}")


def pytest_collection_finish(session: pytest.Session) -> None:
    """CI builds the control plane before the first test: inside one it meets the time limit.

    The collected tests live as long as the run, so the collector of garbage need not walk them.
    """
    gc.freeze()
    real = any(item.get_closest_marker(m) for item in session.items for m in ("integration", "e2e"))
    if in_ci() and real and not session.config.option.collectonly:
        with suppress(MissingComponent):  # each test that needs it says so
            control_plane_folder()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which tests were left out, and how to get what they need."""
    left_out: dict[str, list[str]] = {}
    for report in terminalreporter.getreports("skipped"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        left_out.setdefault(reason.removeprefix("Skipped: "), []).append(report.nodeid)
    for reason, tests in sorted(left_out.items()):
        terminalreporter.section(f"left out: {len(tests)} tests")
        terminalreporter.line(f"why: {reason}")
        for test in sorted(tests):
            terminalreporter.line(f"  {test}")
