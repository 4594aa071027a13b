"""docs/reference/logs.md: the form of a log line, and every message.

python -m devtools.logs_reference            write it
python -m devtools.logs_reference --check    exit 1 when it differs
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from devtools.generators import ROOT, run

FILE = ROOT / "docs" / "reference" / "logs.md"
PACKAGES = ("agent", "captain", "defender", "insight", "kubenode", "machine", "remedy", "rules")
LEVELS = ("debug", "info", "warning", "error", "exception")

ALWAYS = {
    "timestamp": "when, UTC, as ISO 8601",
    "level": "info: a change; warning: a person should look; error: a mistake",
    "logger": "the module that speaks",
    "event": "the sentence, constant: lines of one kind are found and counted by it",
}
SOMETIMES = {
    "controller": "whose reconcile it is; with it comes what the key names: `node`, `job`, `key`",
    "trace": "of the fault, where traces are collected: 32 hexadecimal digits",
    "exception": "the traceback",
    "suppressed": "how many lines with this sentence were left out before it",
}
FIELDS = {
    "about": "which question a host was asked",
    "act": "what was asked of a provider",
    "action": "the agent's action, such as RestartUnit",
    "active": "rules that may make jobs",
    "address": "where something listens",
    "again_seconds": "when it is tried again",
    "agenda": "what the demo planned",
    "agent": "name of a host's agent",
    "authorities": "certificates that are trusted, how many",
    "by": "who asked for it, as the API server knows them",
    "check": "a check of this host",
    "cluster": "name of a cluster of the fleet",
    "component": "name of a component",
    "components": "names of components, commas between",
    "conditions": "types of node conditions",
    "controller": SOMETIMES["controller"],
    "detector": "a detector of the agent",
    "differed": "what was not as it was written",
    "document": "what was asked of the metadata service",
    "endpoint": "where a delivery came in",
    "ends": "when a certificate ends",
    "epoch": "how often who answers or leads has changed",
    "error": "what a library or the system said",
    "events": "events of the stream, how many",
    "every_seconds": "how often it is looked at",
    "fact": "what the rule engines read differently",
    "file": "path of a file on the host",
    "frozen": "rules that are kept for open jobs alone",
    "grace_seconds": "how long parts had to end",
    "holder": "who holds a permit",
    "hook": "name of a webhook registration",
    "host_event": "name of a HostEvent",
    "how": "https or http",
    "informer": "what is watched",
    "job": "name of a RemedyOperationJob",
    "key": "name of an object, NAMESPACE/NAME where it has one",
    "late": "leases that fell silent",
    "late_seconds": "by how much the event loop was late",
    "log": "a log that is read on the host",
    "machine": "name of a Machine",
    "message_id": "of a message of a queue",
    "mode": "how who answers is found",
    "new": "what it is now",
    "node": "name of a Node",
    "nodes": "how many nodes",
    "notice": "id of a notification",
    "object": "name of an object",
    "of": "how many there are",
    "old": "what it was",
    "orphans": "instances that belong to no Machine, how many",
    "others": "names of rules that lost the choice",
    "outcome": "what became of it",
    "output": "the beginning of what an action printed",
    "path": "path of a resource at the API server",
    "permit": "name of a Permit",
    "place": "where a bundle is kept",
    "policy": "name of a DefenderPolicy",
    "port": "where something listens",
    "probe": "name of a HostProbe",
    "provider": "who runs the machine",
    "reason": "a word for why",
    "receiver": "who is told",
    "receivers": "names of receivers that are not set up",
    "refused": "rules that were refused, how many",
    "request": "id of a request to an agent",
    "resource": "plural of a kind",
    "revision": "of what is kept",
    "rule": "name of a NodeRemedier",
    "rules": "how many rules",
    "scope": "of a limit or a breaker, such as `zone=a`",
    "server": "address of the API server",
    "signal": "of the system, such as SIGTERM",
    "source": "of events",
    "state": "of a request",
    "tls": "whether it is served with TLS",
    "transport": "how it was told",
    "unit": "of systemd",
    "what": "of several things the one that is meant",
    "who": "user or program that acted",
    "why": "a sentence",
}

HEAD = """<!-- Written by `make docs` from the calls in the source; change those, not this file. -->
# Logs

Each program writes lines to standard error: text where that is a terminal, else one JSON object per
line; `--log-json` and `--log-text` say which, `--log-level` from when on. The chart asks for JSON.
The agent writes `sentence key=value …` for journald. What was done to nodes, by whom and why, is in
the audit log; lines here are about the programs themselves.

One sentence is written 20 times at once and twice a second after that; the next line that passes
says how many were `suppressed`. A value has at most 4,096 characters. No line holds a secret.
"""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A log message.

    where: the module.
    text: the message; "" if it is not constant.
    values: names of its structured values, as far as the call shows them.
    """

    where: str
    level: str
    text: str
    values: tuple[str, ...]


def sentences() -> Iterator[Sentence]:
    """Yield the messages in the order of their modules."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            where = str(file.relative_to(ROOT).with_suffix("")).replace("/", ".")
            yield from of(file.read_text(encoding="utf-8"), where)


def of(source: str, where: str) -> Iterator[Sentence]:
    if "log." not in source:
        return
    for function in ast.parse(source).body:
        named: dict[str, ast.expr] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                named[node.targets[0].id] = node.value
            if isinstance(node, ast.Call) and _speaks(node):
                yield _sentence(node, where, named)


def _speaks(call: ast.Call) -> bool:
    callee = call.func
    return (
        isinstance(callee, ast.Attribute)
        and isinstance(callee.value, ast.Name)
        and callee.value.id == "log"
        and callee.attr in LEVELS
        and bool(call.args)
    )


def _sentence(call: ast.Call, where: str, named: dict[str, ast.expr]) -> Sentence:
    assert isinstance(call.func, ast.Attribute)
    text = call.args[0].value if isinstance(call.args[0], ast.Constant) else ""
    extra = next((keyword.value for keyword in call.keywords if keyword.arg == "extra"), None)
    level = "error" if call.func.attr == "exception" else call.func.attr
    return Sentence(where, level, str(text), tuple(_keys(extra, named)))


def _keys(extra: ast.expr | None, named: dict[str, ast.expr]) -> Iterator[str]:
    if isinstance(extra, ast.Name) and isinstance(named.get(extra.id), ast.Dict | ast.BinOp):
        yield from _keys(named[extra.id], {})
    elif isinstance(extra, ast.BinOp):
        yield from (*_keys(extra.left, named), *_keys(extra.right, named))
    elif isinstance(extra, ast.Dict):
        for key, value in zip(extra.keys, extra.values, strict=True):
            if isinstance(key, ast.Constant):
                yield str(key.value)
            elif key is None:
                yield from _keys(value, named)


def page() -> str:
    """Return the whole page as Markdown."""
    parts = [HEAD]
    for title, fields in (
        ("In every line", ALWAYS),
        ("Where it applies", SOMETIMES),
        ("Values of sentences", FIELDS),
    ):
        parts.append(f"## {title}\n\n| name | what |\n| --- | --- |")
        parts += [f"| `{name}` | {what} |" for name, what in sorted(fields.items())]
        parts.append("")
    parts.append("## Sentences\n\n| sentence | level | by | values |\n| --- | --- | --- | --- |")
    rows = {
        (sentence.text, sentence.level, sentence.where, sentence.values)
        for sentence in sentences()
        if sentence.text
    }
    for text, level, where, values in sorted(rows):
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(values))
        parts.append(f"| {text} | {level} | `{where}` | {names} |")
    return "\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    return run({FILE: page()}, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
