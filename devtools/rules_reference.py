"""docs/reference/facts.md and lint.md: what rules may ask, and what lint says of them.

python -m devtools.rules_reference            write them
python -m devtools.rules_reference --check    exit 1 when they differ
"""

import sys
from collections.abc import Iterable, Iterator

from devtools.generators import ROOT, run
from rules.builtin import BUILTIN
from rules.lint import CODES, LintCode, LintSeverity
from rules.probes import PROBES

FOLDER = ROOT / "docs" / "reference"
COMPARISONS = {
    "boolean": "`is`",
    "number": "`below`, `above`, `equals`, `in`",
    "text": "`equals`, `in`",
}
"""How a value of a type is compared."""

FACTS_HEAD = """<!-- Written by `make docs` from rules/builtin.py and rules/probes.py. -->
# Facts and probes

What a rule may ask beside conditions, events, alerts, labels, annotations and taints. A fact that
is not known is **unknown**: it never makes a rule act. What this version does not find out is said
with its meaning.

## Built-in facts

Read with `fact: {name: …}`. A fact without a comparison must be true. `zone`, `rack` and `pool` are
the node's own, by the labels `topology.kubernetes.io/zone`, `kubenode.io/rack` and
`kubenode.io/pool`; a node without the label has no such group, and its facts are unknown. Rules
with `infer` make further facts: see [Infer](api.md#infer).
"""
PROBES_HEAD = """
## Probes

Asked with `probe: {name: …}` of the host's agent, its provider or its peers, and only when all
other leaves of the rule hold. An answer counts for `maxAge` (1m); what is not answered within 30s
is unknown.
"""
LINT_HEAD = """<!-- Written by `make docs` from rules/lint/codes.py. -->
# What `kubenode rules lint` says

`kubenode rules lint FILES` prints one finding a line, as `file:line:column: severity: field:
what is wrong: what to do [code]`. **Errors** keep a rule from being admitted and make the command
end with 1; **advice** does so only with `--strict`. `-o sarif` writes SARIF 2.1.0 for code hosts.

Admission runs the same checks. What the API server fills in is there by then: it cannot tell
`onGiveUp: Hold` that was written from one that was left out, so `no-exit` is found in files only.
"""


def facts_page() -> str:
    facts = (
        (f"`{fact.name}`", fact.type, fact.unit, COMPARISONS[fact.type], fact.meaning)
        for fact in BUILTIN.values()
    )
    probes = (
        (
            f"`{probe.name}`",
            probe.type,
            probe.unit,
            _values(probe.values),
            probe.meaning,
        )
        for probe in PROBES.values()
    )
    return "\n".join(
        [
            FACTS_HEAD,
            *_table(("fact", "type", "unit", "compare with", "meaning"), facts),
            PROBES_HEAD,
            *_table(("probe", "type", "unit", "values", "meaning"), probes),
            "",
        ]
    )


def _values(values: tuple[str, ...]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def lint_page() -> str:
    parts = [LINT_HEAD]
    for severity, title in ((LintSeverity.ERROR, "Errors"), (LintSeverity.ADVICE, "Advice")):
        codes = [code for code in CODES.values() if code.severity is severity]
        rows = [(f"[{code.name}](#{code.name})", code.title) for code in codes]
        parts += [f"## {title}", "", *_table(("code", "what it says"), rows), ""]
        parts += [_section(code) for code in codes]
    return "\n".join(parts)


def _section(code: LintCode) -> str:
    return f"### {code.name}\n\n**{code.title}.** {code.why}\n\n{code.remedy}\n"


def main(arguments: list[str]) -> int:
    pages = {FOLDER / "facts.md": facts_page(), FOLDER / "lint.md": lint_page()}
    return run(pages, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
