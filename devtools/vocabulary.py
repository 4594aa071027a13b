"""The vocabulary check: names that CONTRIBUTING.md rules out, and a baseline that only shrinks.

    python -m devtools.vocabulary           rewrite devtools/vocabulary.txt, unless it would grow
    python -m devtools.vocabulary --check   exit 1 if the tree and devtools/vocabulary.txt differ

The kinds of findings:

class        a class name that another class of the tree has too
participle   a module named by an activity (`leaving`) or a participle (`granted`)
pair         a module whose name differs from a neighbour's only by -ing
vague        a vague word in the name of a module, class, function, parameter or variable

Each line of the baseline is `path kind name count`. Lines are sorted, so that branches that shrink
different files merge without a conflict. After a conflict, keep either side and run the command
without --check.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kubenode.runtime.collector import paused_collector

ROOT = Path(__file__).parents[1]
BASELINE = "devtools/vocabulary.txt"
PACKAGES = (
    "agent",
    "captain",
    "defender",
    "devtools",
    "images",
    "insight",
    "kubenode",
    "machine",
    "remedy",
    "rules",
    "simulation",
)
"""The product and its tools, without tests. A package that does not exist is skipped."""
VAGUE = frozenset(
    {
        "asked",
        "found",
        "heard",
        "held",
        "kept",
        "left",
        "look",
        "looks",
        "one",
        "ones",
        "over",
        "said",
        "seen",
        "thing",
        "things",
        "told",
        "way",
        "ways",
        "whose",
        "words",
    }
)
NOUNS = frozenset(
    {
        "embed",
        "feed",
        "fencing",
        "finding",
        "logging",
        "networking",
        "ping",
        "ring",
        "scheduling",
        "seed",
        "setting",
        "speed",
        "string",
        "testing",
        "tracing",
    }
)
"""Nouns of the field that end in -ing or -ed."""
NAME_FIELDS: dict[type[ast.AST], str] = {
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.arg: "arg",
    ast.ClassDef: "name",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.alias: "asname",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}
"""The nodes that bind a name, and the field that holds it."""
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class NameFinding(NamedTuple):
    """A name that breaks a rule, in the order of the fields of a line of the baseline."""

    path: str
    kind: str
    name: str


Findings = Counter[NameFinding]


def scan(root: Path) -> Findings:
    """Count the findings in the packages below `root`."""
    with paused_collector():  # a tree has a million nodes and no garbage: four times as fast
        return _scan(root)


def _scan(root: Path) -> Findings:
    files = [file for package in PACKAGES for file in sorted((root / package).rglob("*.py"))]
    paths = {file.relative_to(root).as_posix(): file for file in files}
    findings: Findings = Counter(_module_findings(paths))
    classes: dict[str, list[str]] = defaultdict(list)
    for path, file in paths.items():
        for name, is_class in defined_names(ast.parse(file.read_bytes(), path)):
            findings.update(NameFinding(path, "vague", word) for word in vague_words(name))
            if is_class:
                classes[name].append(path)
    for name, places in classes.items():
        if len(places) > 1:
            findings.update(NameFinding(path, "class", name) for path in places)
    return findings


def defined_names(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """List every name that the tree binds, and whether it is the name of a class.

    Names that are only read are not listed: their definition is.
    """
    for node in ast.walk(tree):
        if (field := NAME_FIELDS.get(type(node))) and (name := getattr(node, field)):
            if isinstance(getattr(node, "ctx", None), ast.Load | ast.Del):
                continue
            yield name, isinstance(node, ast.ClassDef)


@cache
def vague_words(name: str) -> tuple[str, ...]:
    """Return the vague words among the parts of a name in snake or camel case."""
    return tuple(part for part in map(str.lower, PART.findall(name)) if part in VAGUE)


def is_participle(module: str) -> bool:
    """Return whether a part of the name ends in -ing, or its last part in -ed.

    An -ed before a noun is an adjective: `threaded_instances` names objects.
    """
    *_, last = parts = [part for part in module.split("_") if part not in NOUNS] or [""]
    return any(part.endswith("ing") for part in parts) or (
        last.endswith("ed") and module.endswith(last)
    )


def stem(module: str) -> str:
    """Return the name without -ing, a final e and a doubled letter before -ing."""
    base = module.removesuffix("ing")
    if len(base) < 3:  # `ring` names no activity
        return module
    if base != module and base[-1] == base[-2]:
        base = base[:-1]
    return base.removesuffix("e")


def _module_findings(paths: Iterable[str]) -> Iterator[NameFinding]:
    packages: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in paths:
        folder, _, file = path.rpartition("/")
        module = folder.rpartition("/")[2] if file == "__init__.py" else file.removesuffix(".py")
        parent = folder.rpartition("/")[0] if file == "__init__.py" else folder
        packages[parent, stem(module)].add(module)
        if is_participle(module):
            yield NameFinding(path, "participle", module)
        yield from (NameFinding(path, "vague", word) for word in vague_words(module))
    for (folder, _), modules in packages.items():
        if len(modules) > 1 and any(module.endswith("ing") for module in modules):
            yield NameFinding(folder, "pair", "/".join(sorted(modules)))


def read_baseline(text: str) -> Findings:
    """Parse the lines of a baseline."""
    fields = (line.split(" ") for line in text.splitlines())
    return Counter({NameFinding(path, kind, name): int(n) for path, kind, name, n in fields})


def write_baseline(findings: Findings) -> str:
    """Render a baseline: one sorted line for each finding."""
    return "".join(f"{' '.join(finding)} {findings[finding]}\n" for finding in sorted(findings))


def growth(before: Findings, after: Findings) -> list[str]:
    """Describe what `after` has and `before` has not.

    A file that is moved keeps what it has: only the sum over the tree counts for a path that is
    new. A path that `before` has may not grow at all, even when another one shrinks.
    """
    known = {finding.path for finding in before}
    sums_before, sums_after = _sums(before), _sums(after)
    lines = []
    for finding in sorted(after):
        path, kind, name = finding
        grown = path in known and after[finding] > before[finding]
        added = path not in known and after[finding] > 0
        if grown or (added and sums_after[kind, name] > sums_before[kind, name]):
            lines.append(f"{path}: {kind} {name}: {after[finding]}, was {before[finding]}")
    return lines


def _sums(findings: Findings) -> Counter[tuple[str, str]]:
    sums: Counter[tuple[str, str]] = Counter()
    for (_, kind, name), count in findings.items():
        sums[kind, name] += count
    return sums


def run(arguments: list[str], root: Path = ROOT) -> str:
    """Check or rewrite the baseline below `root`; return why that failed, "" if it did not."""
    if arguments not in ([], ["--check"]):
        return "usage: python -m devtools.vocabulary [--check]"
    file = root / BASELINE
    try:
        before = read_baseline(file.read_text())
    except FileNotFoundError:
        return f"cannot read {BASELINE}: no such file; restore it from git"
    except ValueError as error:
        return f"cannot read {BASELINE}: {error}; keep one side of a merge conflict"
    after = scan(root)
    if lines := growth(before, after):
        rule = "New names break the rules of CONTRIBUTING.md, section Names; rename them:"
        return "\n".join((rule, *lines))
    if not arguments:
        file.write_text(write_baseline(after))
    elif before != after:
        return (
            f"{BASELINE} lists {before.total()} findings, the tree has {after.total()} or has them "
            "elsewhere: run `python -m devtools.vocabulary` and commit the result"
        )
    return ""


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]) or None)
