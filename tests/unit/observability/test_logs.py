"""Logs have one schema: every value has one name and one meaning, and ids come with each line."""

import asyncio
import io
import json
import logging
from typing import Any

import pytest
from support.clock import FakeClock
from support.remedy_builders import JOB, an_object

from devtools import logs_reference
from devtools.logs_reference import ALWAYS, FIELDS, Sentence, sentences
from kubenode.runtime.controller.controller import Controller
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.telemetry import logging as logs
from kubenode.runtime.telemetry.about import about, ids
from kubenode.runtime.telemetry.places import SpanContext
from kubenode.runtime.telemetry.tracing import collecting
from remedy.job.traces import within_fault

log = logging.getLogger("kubenode.test")


@pytest.fixture
def out() -> io.StringIO:
    stream = io.StringIO()
    logs.setup("info", json=True, stream=stream)
    return stream


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.fixture(scope="module")
def said() -> list[Sentence]:
    return list(sentences())


@pytest.mark.exhaustive
def test_every_value_of_every_line_is_in_the_glossary(said: list[Sentence]) -> None:
    assert len(said) > 120
    unknown = {(one.where, key) for one in said for key in one.values if key not in FIELDS}
    assert unknown == set()


def test_no_value_takes_the_place_of_what_every_line_says(said: list[Sentence]) -> None:
    """Nor that of the record's own attributes, which logging refuses when the line is written."""
    own = {*vars(logging.makeLogRecord({})), "message", "asctime"}
    taken = {*ALWAYS, "exception", "suppressed", "trace"} | own
    assert {(one.where, key) for one in said for key in one.values if key in taken} == set()


def test_sentences_are_constant_so_that_lines_can_be_counted_by_them(said: list[Sentence]) -> None:
    """But for three modules, whose words come from a short list."""
    varying = {one.where for one in said if not one.text}
    assert varying <= {"agent.local.healer", "defender.server.calendar", "defender.server.reporter"}
    assert not [one for one in said if "{" in one.text or "%" in one.text]


def test_a_sentence_is_found_with_its_values() -> None:
    source = 'def f():\n    log.info("done", extra={"node": n, **more})\n'
    assert list(logs_reference.of(source, "x")) == [Sentence("x", "info", "done", ("node",))]


def test_what_a_reconcile_logs_says_of_whom(out: io.StringIO) -> None:
    async def reconcile(key: str) -> Result:
        log.info("looked")
        return DONE

    clock = FakeClock()
    controller = Controller(
        "remedier", reconcile, queue=WorkQueue(clock), clock=clock, key_is="node"
    )
    asyncio.run(controller._reconcile_key("n1"))
    (line,) = lines(out)
    assert (line["controller"], line["node"], line["event"]) == ("remedier", "n1", "looked")
    assert ids() == {}


class Nobody:
    def emit(self, span: object) -> None:
        """Collects nothing."""


def test_lines_of_a_job_say_its_node_and_its_trace(out: io.StringIO) -> None:
    async def reconcile(key: str) -> Result:
        log.warning("something of the job")
        return DONE

    place = SpanContext("a" * 32, "b" * 16)
    job = an_object()
    job.metadata.annotations["kubenode.io/traceparent"] = place.header
    named = within_fault(reconcile, {JOB: job}.get)

    async def twice() -> None:
        await named(JOB)
        with collecting(Nobody()):
            await named(JOB)

    asyncio.run(twice())
    before, traced = lines(out)
    assert (before["node"], traced["node"]) == ("n1", "n1")
    assert "trace" not in before
    assert traced["trace"] == place.trace


def test_what_a_call_site_says_counts_more_than_what_its_work_is_about(out: io.StringIO) -> None:
    with about(node="n1", job="j"):
        log.info("another node is asked", extra={"node": "n2"})
    (line,) = lines(out)
    assert (line["node"], line["job"]) == ("n2", "j")


def test_a_value_without_end_is_cut(out: io.StringIO) -> None:
    log.error("refused", extra={"why": "x" * 1_000_000})
    (line,) = lines(out)
    assert len(line["why"]) == logs.LONGEST + 1
    assert line["why"].endswith("…")


def test_a_line_break_in_a_value_makes_no_second_line(out: io.StringIO) -> None:
    log.error("refused", extra={"why": 'x\n{"event": "job made"}'})
    assert len(lines(out)) == 1
