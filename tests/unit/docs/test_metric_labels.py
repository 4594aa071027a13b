"""Labels of metrics come from closed sets: their number does not grow with a fleet."""

import ast
from collections.abc import Iterator

from support.documented import ROOT

PACKAGES = ("agent", "captain", "defender", "kubenode", "machine", "remedy", "simulation")
METRICS = ("Counter", "Gauge", "Histogram", "Summary", "MetricFamily", "family", "counter")
GROWS = {
    "node",
    "node_name",
    "pod",
    "namespace",
    "uid",
    "name",
    "host",
    "hostname",
    "machine",
    "job",
}
GROWS |= {"address", "ip", "user", "holder", "permit", "error", "message", "url", "path", "key"}


def labels(source: str) -> Iterator[str]:
    """Of every metric that the source makes: what stands in a list or tuple of its arguments."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and _name(call.func).endswith(METRICS):
            for given in (*call.args[1:], *(one.value for one in call.keywords)):
                if isinstance(given, ast.List | ast.Tuple):
                    parts = (part for part in given.elts if isinstance(part, ast.Constant))
                    yield from (part.value for part in parts if isinstance(part.value, str))


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def test_no_label_grows_with_the_fleet() -> None:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    sources = {file: file.read_text() for file in files}
    found = {
        (str(file.relative_to(ROOT)), label)
        for file, source in sources.items()
        if "kubenode_" in source
        for label in labels(source)
    }
    assert len({label for _, label in found}) > 15
    assert {one for one in found if one[1] in GROWS} == set()


def test_a_label_that_grows_would_be_seen() -> None:
    assert list(labels('Counter("kubenode_x", "Words.", ["node"], registry=r)')) == ["node"]
    assert list(labels('GaugeMetricFamily("x", "Words.", labels=["uid"])')) == ["uid"]
