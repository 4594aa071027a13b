"""A start of a program imports that program and nothing of the others: imports are most of its CPU.

Each start is a real one, up to a cluster or database that cannot be reached.
"""

import subprocess
import sys

import pytest
from support.command import COMMAND, environment

PARTS = frozenset(
    {
        "agent",
        "captain",
        "defender",
        "devtools",
        "insight",
        "machine",
        "remedy",
        "rules",
        "simulation",
    }
)
SDKS = frozenset(
    {"alibabacloud_ecs20140526", "azure", "boto3", "google.cloud", "pynvml", "sushy", "asyncssh"}
)
WEB_PAGES = frozenset({"fastapi", "sse_starlette", "jinja2", "defender.dashboard.server"})
CLIENT_ONLY = frozenset({"defender.decision.breaker", "defender.replicas", "defender.service"})
"""Parts of Kube Defender that its clients do not need."""
NO_CLUSTER = ("--kubeconfig", "/nonexistent/kubeconfig")
NO_STORE = ("--database-url", "sqlite:////nonexistent/store.db")


@pytest.mark.parametrize(
    ("program", "flags", "allowed", "never"),
    [
        ("remedy", NO_CLUSTER, {"remedy", "rules", "defender"}, CLIENT_ONLY | {"fastapi"}),
        ("defender", NO_CLUSTER, {"defender", "rules"}, {"ruamel", "durable_rules_engine"}),
        ("machine", NO_CLUSTER, {"machine", "rules", "defender"}, CLIENT_ONLY | WEB_PAGES),
        ("autoscaler-provider", NO_CLUSTER, {"defender"}, CLIENT_ONLY | WEB_PAGES | {"ruamel"}),
        ("captain", NO_CLUSTER, {"captain"}, WEB_PAGES | {"ruamel", "re2"}),
        ("insight", NO_STORE, {"insight"}, {"kubernetes", "fastapi", "kubenode.api.v1alpha1"}),
        ("all", NO_CLUSTER, {"remedy", "rules", "defender", "machine"}, set[str]()),
    ],
    ids=["remedy", "defender", "machine", "autoscaler-provider", "captain", "insight", "all"],
)
def test_a_program_imports_no_other_program(
    program: str, flags: tuple[str, ...], allowed: set[str], never: set[str]
) -> None:
    imported = imported_by("run", program, *flags)
    assert imported & PARTS == allowed
    assert not imported & (SDKS | never)


def imported_by(*arguments: str) -> set[str]:
    """Return the names of all modules that a start of the command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", COMMAND, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    *lines, message = done.stderr.splitlines()
    assert "/nonexistent/" in message, "the start ended before it imported the program"
    return {line.rpartition("|")[2].strip() for line in lines}
