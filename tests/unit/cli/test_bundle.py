"""Bundles are bounded, say what they lack, and hold nothing that is secret by its name or look."""

import json
import tarfile
from pathlib import Path
from typing import Any, cast

import pytest

from agent.diagnostics.redaction import HIDDEN
from kubenode.cli.bundle import collection
from kubenode.cli.bundle import contents as module
from kubenode.cli.bundle.contents import BundleContents, fitting
from kubenode.cli.bundle.redaction import clean, without_secrets
from kubenode.runtime.kube.client import Kube


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"bootstrapToken": "abc"}, {"bootstrapToken": HIDDEN}),
        ({"tokens": {"password": ["a", "b"]}}, {"tokens": {"password": [HIDDEN, HIDDEN]}}),
        ({"secretName": "kubenode-webhook"}, {"secretName": "kubenode-webhook"}),
        ({"automountServiceAccountToken": True}, {"automountServiceAccountToken": True}),
        ({"caBundle": "x", "managedFields": [], "a": 1}, {"a": 1}),
        ({"output": {"stdout": "x"}}, {"output": "(15 characters)"}),
        ({"files": [{"path": "/etc/a", "content": "x" * 9}]},
         {"files": [{"path": "/etc/a", "content": "(9 characters)"}]}),
        ({"name": "A", "value": "b"}, {"name": "A", "value": HIDDEN}),
        ({"name": "KUBENODE_A", "value": "b"}, {"name": "KUBENODE_A", "value": "b"}),
        ({"name": "KUBENODE_REDIS_URL", "value": "redis://u:p@h"},
         {"name": "KUBENODE_REDIS_URL", "value": f"redis://{HIDDEN}@h"}),
    ],
)  # fmt: skip
def test_fields_that_are_secret_by_their_name_are_hidden(given: Any, left: Any) -> None:
    assert without_secrets(given) == left


@pytest.mark.parametrize(
    "text",
    [
        "joined with abcdef.0123456789abcdef",
        "POST https://hooks.slack.com/services/T0/B0/abcdef",
        "GET https://h/x?X-Amz-Signature=abcdef&a=1",
        "-----BEGIN PRIVATE KEY-----\nabcdef\n-----END PRIVATE KEY-----",
    ],
)
def test_texts_that_are_secret_by_their_look_are_hidden(text: str) -> None:
    assert HIDDEN in clean(text)
    assert "abcdef" not in clean(text)


@pytest.mark.parametrize("text", ["node n1 is ready", "containerd 1.7.27-0ubuntu1", "a.b.c/d:8081"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert clean(text) == text


def test_what_nests_without_end_is_cut() -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = [deep]
    assert HIDDEN in json.dumps(without_secrets(deep))


def test_a_long_text_keeps_its_end_and_a_full_bundle_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LARGEST_FILE", 100)
    monkeypatch.setattr(module, "LARGEST", 150)
    contents = BundleContents({})
    contents.add("a.log", "x" * 500 + "the end")
    contents.add("b.log", "y" * 500)
    contents.add("c.log", "z")
    assert contents.files["a.log"].endswith(b"the end")
    assert contents.size == 150
    manifest = contents.manifest()
    assert manifest["files"][0]["note"] == "the last 100 of 507 bytes"
    assert [one["what"] for one in manifest["missing"]] == ["c.log"]


class Pages:
    """As a client of a server that has `count` jobs, of which the last by name is open and new."""

    def __init__(self, count: int) -> None:
        self._count = count

    async def get(self, path: str, *, query: dict[str, Any] | None = None) -> dict[str, Any]:
        if not path.endswith("/remedyoperationjobs"):
            return {"items": []}
        query = query or {}
        first = int(query.get("continue") or 0)
        after = min(first + int(query["limit"]), self._count)
        more = str(after) if after < self._count else None
        return {
            "items": [self._job(n) for n in range(first, after)],
            "metadata": {"continue": more},
        }

    def _job(self, n: int) -> dict[str, Any]:
        last = n == self._count - 1
        phase = "Running" if last else "Succeeded"
        return {"metadata": {"name": f"job-{n:06}"}, "status": {"phase": phase}}


@pytest.mark.exhaustive
async def test_of_a_list_of_any_length_the_open_ones_stay_and_all_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collection, "LARGEST_FILE", 2000)
    contents = BundleContents({})
    await collection.Gathering(cast(Kube, Pages(20_600)), "kubenode-system", contents).all()
    name = "resources/remedyoperationjobs.json"
    kept = json.loads(contents.files[name])
    assert kept[0]["metadata"]["name"] == "job-020599"
    assert contents.notes[name] == f"{len(kept)} of 20600, open and newest first"


def test_of_too_many_objects_the_heaviest_stay() -> None:
    many = [{"n": n, "text": "x" * 100} for n in range(100)]
    kept = fitting(many, lambda one: one["n"], 1000)
    assert [one["n"] for one in kept] == [99, 98, 97, 96, 95]


def test_a_bundle_that_cannot_be_finished_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "b.tar.gz"
    contents = BundleContents({"made": "now"}, files={"a": "no bytes"})  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        contents.write(out, 0)
    assert list(tmp_path.iterdir()) == []
    BundleContents({"made": "now"}).write(out, 0)
    with tarfile.open(out) as archive:
        assert archive.getnames() == ["b/manifest.json"]
