"""Nothing secret is handed to a log, to the screen or to an error's text."""

import ast
import re
from collections.abc import Iterator

from support.documented import ROOT

SECRET = re.compile(r"(^|_)(token|password|secret|passphrase|private_key|credentials?|bearer)$")
WORDS = re.compile(r"\b\w*(?:token|password|secret|passphrase|private_key|credentials?|bearer)\b")
TELLS = {"debug", "info", "warning", "error", "exception", "critical", "log", "echo", "secho"}
TELLS |= {"say", "print"}
NO_SECRETS = {
    *(f"kubenode/providers/{by}/instances.py" for by in ("alibaba", "aws", "azure", "local")),
    "remedy/hostdoctor/parsers/aws_eventbridge.py",
}
"""Their tokens make a request one that can be repeated; they let nobody in."""
PACKAGES = (
    "agent",
    "captain",
    "defender",
    "insight",
    "kubenode",
    "machine",
    "remedy",
    "rules",
    "simulation",
)


def told(call: ast.Call) -> Iterator[str]:
    """Names of secrets whose value is part of what is told; a mere question about one is not."""
    left: list[ast.AST] = [*call.args, *(keyword.value for keyword in call.keywords)]
    while left:
        node = left.pop()
        name = node.id if isinstance(node, ast.Name) else ""
        name = node.attr if isinstance(node, ast.Attribute) else name
        if SECRET.search(name):
            yield name
        elif not isinstance(node, (ast.Compare, ast.Call)):
            left += ast.iter_child_nodes(node)
        elif isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
            left += [*node.args, *(keyword.value for keyword in node.keywords)]


def findings(source: str) -> list[str]:
    """Line and name of each."""
    nodes = list(ast.walk(ast.parse(source)))
    raised = {node.exc for node in nodes if isinstance(node, ast.Raise)}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    telling = (call for call in calls if _name(call.func) in TELLS or call in raised)
    return [f"{call.lineno} {name}" for call in telling for name in told(call)]


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def test_nothing_secret_is_handed_to_a_log_or_to_the_screen() -> None:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    sources = {str(file.relative_to(ROOT)): file.read_text() for file in files}
    bad = {
        name: found
        for name, source in sources.items()
        if name not in NO_SECRETS and WORDS.search(source) and (found := findings(source))
    }
    assert bad == {}


def test_a_secret_that_is_told_would_be_seen() -> None:
    assert findings('log.info("joined", extra={"token": token})')
    assert findings('say(f"with {settings.bootstrap_token}")')
    assert findings('raise Refused("no: %s" % password)')
    assert not findings('log.info("joined", extra={"with_token": token is not None})')
