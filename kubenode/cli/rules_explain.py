"""`kubenode rules explain`: evaluates one rule for one node and shows each leaf of the rule.

A leaf is shown with value, source and age. This module reads a live cluster;
simulation.replay.recorded_explanation reads a recording. The rule may come from a file, to see what
it would match before it is loaded.
"""

import difflib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import typer

from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.library import rules_from
from kubenode.cli.live import read_node
from kubenode.cli.options import Plain
from kubenode.cli.rules_outlook import RuleOutlook, lines, of_live
from rules.explain import RuleExplanation, explained
from rules.rule import CompileError


async def of_cluster(
    node: str,
    rule: str,
    kubeconfig: str | None,
    context: str | None,
    *,
    rules: Sequence[Path],
    output: Plain,
) -> Exit:
    """Explain the rule in a live cluster.

    rules: files of rules that replace the cluster's rules of the same names.
    """
    instead = rules_from(rules) if rules else []
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        live = await read_node(kube, node, kube.clock, instead)
        selected_rule = live.rule(rule)
        if selected_rule is None:
            raise Refusal(unknown("rule", rule, [r.metadata.name for r in live.rules]))
        require_compiled(rule, {e.rule.partition("@")[0]: e for e in live.program.rejected})
        now = kube.clock.now()
        standing = of_live(live, now).get(rule)
        show(explained(selected_rule, live.facts, now, live.program), output, standing)
    return Exit.FINE


def show(explanation: RuleExplanation, output: Plain, standing: RuleOutlook | None) -> None:
    """Print the explanation.

    standing: what happens with the rule now; None if it does not match.
    """
    if output is Plain.JSON:
        now = {} if standing is None else {"now": standing.to_json()}
        typer.echo(json.dumps(explanation.to_json() | now, indent=2, ensure_ascii=False))
    else:
        for line in (explanation.text(), *lines(standing)):
            typer.echo(line)


def require_compiled(rule: str, rejected: Mapping[str, CompileError]) -> None:
    """Raise Refusal with the compiler's error if the rule was rejected."""
    if (error := rejected.get(rule)) is not None:
        raise Refusal(f"the rule does not compile: {error}; see `kubenode rules lint`")


def unknown(what: str, name: str, there: Collection[str]) -> str:
    near = difflib.get_close_matches(name, list(there), n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {len(there)}"
    return f"{what} {name} is not there: {hint}"
