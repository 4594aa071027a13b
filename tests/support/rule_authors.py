"""Rule authors with grants, on a real API server with the chart's policies about rules."""

import json
import time
from collections.abc import Mapping
from typing import Any, Self

from support.agent_jobs import Caller
from support.command import kubenode
from support.control_plane import ControlPlane
from support.helm import CHART, documents

from kubenode.runtime.kube import paths

RULES = paths.custom("noderemediers")
POLICIES = CHART / "remedy" / "authors.yaml"
WORDS = CHART / "remedy" / "words.yaml"
EXAMPLE: Mapping[str, str] = {
    "team-a.groups": "team-a",
    "team-a.modes": "DryRun",
    "team-a.steps": "*",
    "team-a.nodes": "*",
    "team-b.groups": "team-b\nteam-b-leads",
    "team-b.modes": "DryRun\nEnforce",
    "team-b.steps": "cordon\nuncordon\nmigrate\nagent/RestartUnit\nnotify",
    "team-b.nodes": "pool=b",
}
"""The grants of docs/rule-authors.md."""
POOL_B = {"selector": {"matchLabels": {"pool": "b"}}}
CORDON = {"name": "isolate", "steps": [{"cordon": {}}, {"migrate": {}}]}
ROLE_NAME = "rule-authors-of-tests"
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": ROLE_NAME},
    "rules": [
        {"apiGroups": ["kubenode.io"], "resources": ["noderemediers"], "verbs": ["*"]},
    ],
}


def a_rule(name: str, spec: Mapping[str, Any], **annotations: str) -> dict[str, Any]:
    meta = {"name": name, "annotations": annotations}
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeRemedier",
        "metadata": meta,
        "spec": {
            "mode": "DryRun",
            "nodes": {"all": True},
            "when": {"condition": {"type": "Sick", "for": "1m"}},
            "ladder": [CORDON],
            **spec,
        },
    }


class Author(Caller):
    """A user who may write NodeRemediers, as far as RBAC is asked."""

    def __init__(self, cp: ControlPlane, name: str, *groups: str) -> None:
        super().__init__(cp, name, groups)
        self.name = name
        binding = ("create", "clusterrolebinding", f"rules-{name}")
        cp.kubectl(*binding, f"--clusterrole={ROLE_NAME}", f"--user={name}")

    def refusal(
        self, rule: Mapping[str, Any], method: str = "POST", *, dry_run: bool = True
    ) -> str:
        """Message of the refusal of a whole rule; "" if it is accepted."""
        name = f"/{rule['metadata']['name']}" if method == "PATCH" else ""
        query = "?dryRun=All" if dry_run else ""
        return _refusal(*self.ask(method, f"{RULES}{name}{query}", rule))

    def patch(self, name: str, change: Mapping[str, Any]) -> str:
        return _refusal(*self.ask("PATCH", f"{RULES}/{name}", change))

    def annotate(self, name: str, **annotations: str | None) -> str:
        keys = {f"kubenode.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
        return self.patch(name, {"metadata": {"annotations": keys}})


def _refusal(code: int, text: str) -> str:
    answer = json.loads(text)
    if code < 300:
        return ""
    message: str = answer["message"]
    return message


def grants_of(policy: Mapping[str, Any]) -> dict[str, Any]:
    """The variable of the policy that holds the grants."""
    (data,) = (one for one in policy["spec"]["variables"] if one["name"] == "data")
    return dict(json.loads(data["expression"]))


def with_grants(grants: Mapping[str, str]) -> str:
    """The chart's policy with these grants beside its own."""
    objects = documents(POLICIES.read_text())
    for one in objects:
        for variable in one["spec"].get("variables", ()):
            if variable["name"] == "data":
                variable["expression"] = json.dumps({**grants_of(one), **grants})
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


class AuthorPlane:
    """The chart's policies about rules, with these grants, until the end of the block."""

    def __init__(
        self, cp: ControlPlane, grants: Mapping[str, str], *, acceptance: str = "AnotherPerson"
    ) -> None:
        self.cp = cp
        self.admin = Caller(cp, "admin", ["system:masters"])
        self._grants = {**grants, "acceptance": acceptance}
        self._names: list[str] = []

    def __enter__(self) -> Self:
        installed = kubenode("install", "--kubeconfig", self.cp.kubeconfig)
        assert installed.returncode == 0, installed.stderr
        self.cp.kubectl("apply", "-f", "-", stdin=json.dumps(ROLE))
        self.cp.kubectl("apply", "-f", WORDS)
        self.grant(self._grants)
        try:
            self._until_enforced()
        except BaseException:  # also an interruption: the policy must not stay
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.cp.kubectl("delete", "-f", POLICIES, "-f", WORDS, "--ignore-not-found")
        self.cp.kubectl("delete", "noderemediers", "--all")
        names = [f"rules-{name}" for name in self._names]
        if names:
            self.cp.kubectl("delete", "clusterrolebinding", *names, "--ignore-not-found")
        self.cp.kubectl("delete", "clusterrole", ROLE_NAME, "--ignore-not-found")

    def grant(self, grants: Mapping[str, str]) -> None:
        """Apply the policy with these grants beside those of the chart."""
        self.cp.kubectl("apply", "-f", "-", stdin=with_grants(grants))

    def author(self, name: str, *groups: str) -> Author:
        self._names.append(name)
        return Author(self.cp, name, *groups)

    def _until_enforced(self) -> None:
        """Until a grant of these tests is held, and who has none is refused."""
        known, stranger = self.author("first", "team-b"), self.author("stranger")
        mine = a_rule("first", {"nodes": POOL_B}, **{"kubenode.io/author": "first"})
        deadline = time.monotonic() + 60
        while known.refusal(mine) or "no grant" not in stranger.refusal(a_rule("first", {})):
            assert time.monotonic() < deadline, known.refusal(mine)
            time.sleep(0.3)


def steps(*found: Mapping[str, Any]) -> dict[str, Any]:
    return {"ladder": [{"name": "act", "steps": list(found)}]}


def signed(author: Author, name: str, spec: Mapping[str, Any], **more: str) -> dict[str, Any]:
    """A rule with its author's name, as the webhook writes it."""
    return a_rule(name, spec, **{"kubenode.io/author": author.name, **more})
