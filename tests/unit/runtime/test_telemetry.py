import io
import json
import logging
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from support.clock import FakeClock

from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.lease import LeaderElection
from kubenode.runtime.telemetry import logging as telemetry
from kubenode.runtime.telemetry.metrics import CODES, RuntimeMetrics, code_label

log = logging.getLogger("kubenode.test")


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_one_json_object_with_its_values() -> None:
    out = io.StringIO()
    telemetry.setup("info", json=True, stream=out)
    log.info("job opened", extra={"node": "n1", "rung": 2})
    log.debug("not shown")
    (record,) = lines(out)
    assert record["event"] == "job opened"
    assert (record["node"], record["rung"], record["level"]) == ("n1", 2, "info")
    assert record["logger"] == "kubenode.test"
    assert str(record["timestamp"]).endswith("Z")


def test_an_exception_comes_with_its_traceback() -> None:
    out = io.StringIO()
    telemetry.setup("info", json=True, stream=out)
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        log.exception("reconcile failed")
    assert "RuntimeError: broken" in str(lines(out)[0]["exception"])


def test_people_get_text() -> None:
    out = io.StringIO()
    telemetry.setup("info", json=False, stream=out)
    log.warning("lease lost", extra={"why": "taken"})
    assert "lease lost" in out.getvalue()


def test_a_storm_of_one_sentence_is_cut_and_says_how_much_was_left_out() -> None:
    out, clock = io.StringIO(), FakeClock()
    telemetry.setup("info", json=True, stream=out, clock=clock)
    for i in range(100):
        log.info("node is ill", extra={"node": f"n{i}"})
    log.info("another sentence")
    assert len(lines(out)) == 21
    clock.step(timedelta(seconds=10))
    log.info("node is ill")
    assert lines(out)[-1]["suppressed"] == 80


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="use one of debug, info"):
        telemetry.setup("loud")


@pytest.mark.parametrize(
    ("code", "label"),
    [
        ("200", "2xx"),
        ("201", "2xx"),
        ("404", "404"),
        ("418", "4xx"),
        ("503", "5xx"),
        ("none", "none"),
    ],
)
def test_codes_are_a_closed_set(code: str, label: str) -> None:
    assert code_label(code) == label
    assert label in CODES


def test_states_are_read_when_the_page_is_asked_for_and_counters_start_at_zero() -> None:
    registry, clock = CollectorRegistry(), FakeClock()
    metrics = RuntimeMetrics(registry)
    kube = Kube(PlainTransport("http://127.0.0.1:1"), clock=clock)
    queue: WorkQueue[str] = WorkQueue(clock)
    metrics.controller("nodes", queue)
    metrics.informer(Informer(kube, "/api/v1/nodes", structs(Node)))
    metrics.lease("remedy", LeaderElection(kube, "ns", "remedy", "me"))
    meter = metrics.client("main")
    queue.add("n1")
    clock.step(timedelta(seconds=7))
    meter.request("GET", "200", 0.01)
    page = generate_latest(registry).decode()
    for line in (
        'kubenode_controller_reconciles_total{controller="nodes",outcome="conflict"} 0.0',
        'kubenode_queue_depth{controller="nodes"} 1.0',
        'kubenode_queue_oldest_seconds{controller="nodes"} 7.0',
        'kubenode_queue_retries_total{controller="nodes"} 0.0',
        'kubenode_informer_age_seconds{resource="nodes"} +Inf',
        'kubenode_lease_leading{lease="remedy"} 0.0',
        'kubenode_client_requests_total{client="main",code="2xx",method="GET"} 1.0',
        'kubenode_client_requests_total{client="main",code="none",method="PUT"} 0.0',
    ):
        assert line in page


def test_two_parts_of_one_name_are_refused() -> None:
    metrics = RuntimeMetrics(CollectorRegistry())
    metrics.controller("nodes", WorkQueue(FakeClock()))
    with pytest.raises(ValueError, match="called 'nodes'"):
        metrics.controller("nodes", WorkQueue(FakeClock()))
