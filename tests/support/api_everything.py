"""Every object that an API server holds, by name: what a test has left behind."""

import time
import urllib.error
from typing import Any

from support.control_plane import ControlPlane

PASSING = frozenset(
    {
        "controllerrevisions",
        "endpoints",
        "endpointslices",
        "events",
        "ipaddresses",
        "leases",
        "pods",
        "replicasets",
    }
)
"""Come and go by themselves."""


def everything(cp: ControlPlane) -> set[str]:
    """resource/namespace/name of all objects but those of PASSING."""
    found: set[str] = set()
    for path in ("/api/v1", *_group_versions(cp)):
        for resource in _resources(cp, path):
            name = resource["name"]
            if "/" in name or "list" not in resource["verbs"] or name in PASSING:
                continue
            for item in _items(cp, f"{path}/{name}"):
                meta = item["metadata"]
                found.add(f"{name}/{meta.get('namespace', '')}/{meta['name']}")
    return found


def _resources(cp: ControlPlane, path: str) -> list[dict[str, Any]]:
    try:
        resources: list[dict[str, Any]] = cp.get(path)["resources"]
        return resources
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return []  # its last kind has just gone


def _items(cp: ControlPlane, path: str) -> list[dict[str, Any]]:
    """A kind that is new or going is served by nobody for a moment: 429 or 404."""
    for _ in range(100):
        try:
            items: list[dict[str, Any]] = cp.get(path)["items"]
            return items
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return []
            if error.code != 429:
                raise
        time.sleep(0.1)
    raise AssertionError(f"{path} is not served")


def _group_versions(cp: ControlPlane) -> list[str]:
    groups = cp.get("/apis")["groups"]
    return [f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups]
