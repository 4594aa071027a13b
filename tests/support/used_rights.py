"""Rights that processes really use, by the API server's audit log, beside those that they have."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.helm import Object

ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource (`pods/eviction`), as one rule of one role gives it.

    namespace  "" in all of them, and for what is in none
    names      the objects that it is narrowed to; empty is all
    """

    account: str
    group: str
    resource: str
    verb: str
    namespace: str = ""
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in {self.namespace}" if self.namespace else ""
        which = f" {'|'.join(self.names)}" if self.names else ""
        return f"{self.verb} {what}{which}{where}"

    def covers(self, used: "Right") -> bool:
        same = (self.account, self.group, self.resource, self.verb)
        return (
            same == (used.account, used.group, used.resource, used.verb)
            and self.namespace in ("", used.namespace)
            and (not self.names or used.names[:1] in [(name,) for name in self.names])
        )


def given(objects: Iterable[Object]) -> set[Right]:
    """What the roles among them give to service accounts, by namespace/name."""
    by_kind: dict[str, list[Object]] = {}
    for one in objects:
        by_kind.setdefault(one["kind"], []).append(one)
    roles = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one["rules"]
        for kind in ("ClusterRole", "Role")
        for one in by_kind.get(kind, ())
    }
    found: set[Right] = set()
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for binding in by_kind.get(kind, ()):
            space = binding["metadata"].get("namespace", "")
            ref = binding["roleRef"]
            where = space if ref["kind"] == "Role" else ""
            rules = roles[(ref["kind"], where, ref["name"])]
            for subject in binding["subjects"]:
                if subject["kind"] == "ServiceAccount":
                    account = f"{subject['namespace']}/{subject['name']}"
                    found.update(_expanded(account, rules, space))
    return found


def _expanded(account: str, rules: list[dict[str, Any]], namespace: str) -> Iterator[Right]:
    for rule in rules:
        names = tuple(sorted(rule.get("resourceNames", ())))
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield Right(account, group, resource, verb, namespace, names)


def used(audit_log: Path) -> tuple[set[Right], list[str]]:
    """What service accounts did, and a sentence for each request that RBAC refused."""
    done: set[Right] = set()
    refused: list[str] = []
    for line in audit_log.read_text().splitlines():
        if ACCOUNT not in line:
            continue
        entry = json.loads(line)
        name = entry["user"]["username"]
        about = entry.get("objectRef")
        if not name.startswith(ACCOUNT) or about is None:
            continue
        right = _asked(name.removeprefix(ACCOUNT).replace(":", "/"), entry["verb"], about)
        if entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid":
            refused.append(f"{right.account}: {right}")
        else:
            done.add(right)
    return done, refused


def _asked(account: str, verb: str, about: dict[str, Any]) -> Right:
    resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    name = (about["name"],) if about.get("name") else ()
    group = about.get("apiGroup", "")
    return Right(account, group, resource, verb, about.get("namespace", ""), name)


def idle(have: Iterable[Right], done: Iterable[Right]) -> list[Right]:
    """Those that nothing of `done` needed."""
    acts = list(done)
    return sorted(right for right in have if not any(right.covers(act) for act in acts))
