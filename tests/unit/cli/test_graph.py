"""The graph of rules: who reads whom, drawn so that nothing lies on anything else."""

import itertools
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from support.lint_cases import LIVE, OOPS, inferring, named

from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.graph.command import command
from kubenode.cli.graph.layout import HEIGHT, Box, layout
from kubenode.cli.graph.mermaid import mermaid
from kubenode.cli.graph.model import Edge, Graph, Role, around, graph_of, without_guards
from kubenode.cli.graph.svg import svg
from kubenode.cli.options import Drawing

SVG = "{http://www.w3.org/2000/svg}"
CHAIN = [
    inferring("sick-rack", "rack.sick", {"all": [LIVE, OOPS]}),
    named("acts", when={"fact": {"name": "rack.sick"}}),
    named("other", when={"absent": {"probe": {"name": "host.agent", "equals": "alive"}}}),
]


def many(rules: int = 100) -> Graph:
    """Each rule reads three of forty conditions; every tenth infers what the next reads."""
    found = []
    for n in range(rules):
        leaves = [{"condition": {"type": f"C{(n * k + k) % 40}"}} for k in (1, 3, 7)]
        if n % 10 == 1:
            leaves.append({"fact": {"name": f"my.f{n - 1}"}})
        when = {"all": leaves}
        found.append(
            inferring(f"r{n}", f"my.f{n}", when) if n % 10 == 0 else named(f"r{n}", when=when)
        )
    return graph_of(found)


def test_signals_feed_rules_and_rules_feed_what_reads_their_facts() -> None:
    edges = set(graph_of(CHAIN).edges)
    assert Edge("signal condition KubeletUnhealthy", "rule sick-rack", Role.EVIDENCE) in edges
    assert Edge("signal event KernelOops", "rule sick-rack", Role.EVIDENCE) in edges
    assert Edge("rule sick-rack", "derived rack.sick", Role.INFERS) in edges
    assert Edge("derived rack.sick", "rule acts", Role.EVIDENCE) in edges
    assert Edge("probe host.agent", "rule other", Role.EVIDENCE) in edges
    assert Edge("fact maintenance.active", "rule acts", Role.GUARD) in edges


def test_guards_can_be_left_out_and_with_them_what_only_they_read() -> None:
    ids = {node.id for node in without_guards(graph_of(CHAIN)).nodes}
    assert "fact maintenance.active" not in ids
    assert "rule acts" in ids


def test_around_a_rule_is_what_leads_to_it_and_what_follows() -> None:
    ids = {node.id for node in around(without_guards(graph_of(CHAIN)), ["sick-rack"]).nodes}
    assert {"rule acts", "derived rack.sick", "signal event KernelOops"} <= ids
    assert "rule other" not in ids


def test_every_line_runs_to_the_right_and_no_two_boxes_touch() -> None:
    graph = many()
    placed = layout(graph)
    for edge in graph.edges:
        source, target = placed.boxes[edge.source], placed.boxes[edge.target]
        assert source.x + source.width < target.x
    columns: dict[float, list[Box]] = {}
    for box in placed.boxes.values():
        columns.setdefault(box.x, []).append(box)
        assert box.x >= 0
        assert box.x + box.width <= placed.width
        assert box.y + HEIGHT <= placed.height
    for boxes in columns.values():
        heights = sorted(box.y for box in boxes)
        assert all(b - a > HEIGHT for a, b in itertools.pairwise(heights))


def test_a_cycle_is_drawn_all_the_same() -> None:
    first = inferring("first", "my.a", {"fact": {"name": "my.b"}})
    second = inferring("second", "my.b", {"fact": {"name": "my.a"}})
    assert len(layout(graph_of([first, second])).boxes) == 4


def test_the_drawing_is_well_formed_and_says_in_words_what_it_shows() -> None:
    odd = named("odd", when={"event": {"message": '<&"#` ]]>', "count": 3}})
    root = ElementTree.fromstring(svg(graph_of([*CHAIN, odd])))
    assert root.attrib["role"] == "img"
    assert root.findtext(f"{SVG}title") == "4 rules and what feeds them"
    words = root.findtext(f"{SVG}desc") or ""
    assert "Rule acts reads rack.sick, maintenance.active." in words
    assert "Rule sick-rack reads condition KubeletUnhealthy, event KernelOops" in words
    assert len(root.findall(f"{SVG}g")) == len(graph_of([*CHAIN, odd]).nodes)


def test_mermaid_keeps_what_would_break_its_text_out_of_it() -> None:
    odd = named("odd", when={"event": {"message": 'a"b<c>#d`', "count": 3}})
    lines = mermaid(without_guards(graph_of([odd]))).splitlines()
    assert lines[0] == "flowchart LR"
    assert lines[1] == '  n0["odd"]:::rule'
    assert '(["event ~a#quot;b#lt;c#gt;#35;d#96;"])' in lines[2]
    assert "  n1 --> n0" in lines


def test_json_has_guards_and_the_drawings_have_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rule.yaml"
    rule = named("acts").to_dict()
    file.write_text(json.dumps(rule))
    assert command([file], only=(), guards=False, output=Drawing.JSON) is Exit.FINE
    edges = json.loads(capsys.readouterr().out)["edges"]
    assert {edge["role"] for edge in edges} == {"evidence", "guard"}
    command([file], only=(), guards=False, output=Drawing.MERMAID)
    assert "maintenance" not in capsys.readouterr().out


def test_a_rule_that_is_not_there_is_told(tmp_path: Path) -> None:
    file = tmp_path / "rule.yaml"
    file.write_text(json.dumps(named("acts").to_dict()))
    with pytest.raises(Refusal, match="did you mean acts"):
        command([file], only=["act"], guards=False, output=Drawing.SVG)
