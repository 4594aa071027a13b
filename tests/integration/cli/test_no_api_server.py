"""A server that is no Kubernetes API server: each command says so in a sentence."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.command import http_server, kubeconfig, kubenode

from kubenode.api.v1alpha1 import KINDS
from kubenode.cli.cluster import as_api_answer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
COMMANDS = [
    "job list",
    "job show x",
    "job next x",
    "approve x",
    "explain job x",
    "explain node x",
    "explain permit x",
    "events",
    "status",
    "doctor",
    "uninstall --yes",
    "install",
    "pause --why x",
    "resume",
    "rules list --cluster",
    "rules install gpu --dry-run",
    "defender status",
    "defender explain x",
    "component status",
    "component sets",
    "component plan x",
    "machine list",
    "machine show x",
    "machine orphans",
    "freeze show",
    "diagnose x --wait 1s",
]
SOME = ("job list", "status", "install")
NOT_FOUND = (404, {"kind": "Status", "code": 404, "reason": "NotFound"})
VERSION = (200, {"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
API = (200, {"kind": "APIVersions", "versions": ["v1"]})
GROUP = (200, {"resources": [{"name": kind.resource.plural} for kind in KINDS]})
Answers = Mapping[str, tuple[int, Any]]


@pytest.mark.parametrize(
    ("answer", "commands"),
    [
        (NOT_FOUND, COMMANDS),
        ((200, b"<html>log in</html>"), SOME),
        ((200, []), SOME),
        ((200, {}), SOME),
        ((500, b"oops"), SOME),
    ],
    ids=["404", "html", "list", "empty", "500"],
)
def test_a_server_without_a_version_is_named_as_no_api_server(
    answer: tuple[int, Any], commands: Sequence[str], tmp_path: Path
) -> None:
    with http_server({}, answer) as server:
        config = kubeconfig(tmp_path / "k", server)
        for words in commands:
            done = kubenode(*words.split(), "--kubeconfig", config)
            assert "Traceback" not in done.stderr, words
            assert done.returncode == 3, f"{words}: {done.stderr}"
            assert "does not answer as a Kubernetes API server does" in done.stderr, words
            assert str(config) in done.stderr


def test_nonsense_behind_a_good_version_is_no_traceback(tmp_path: Path) -> None:
    answers: Answers = {"/version": VERSION, "/api": API, "/apis/kubenode.io/v1alpha1": GROUP}
    with http_server(answers, (200, [])) as server:
        config = kubeconfig(tmp_path / "k", server)
        for words in COMMANDS:
            done = kubenode(*words.split(), "--kubeconfig", config)
            assert "Traceback" not in done.stderr, f"{words}: {done.stderr}"
            assert done.returncode in (1, 3), words


@pytest.mark.parametrize(
    "raw", [b"[]", b"{}", b"7", b'{"items": "x"}', b'{"items": [1]}', b'{"metadata": 7}', b""]
)
def test_an_answer_without_the_shape_of_an_object_or_list_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):
        as_api_answer(raw)


def test_an_object_a_list_and_a_version_are_accepted() -> None:
    for raw in (b'{"metadata": {}}', b'{"items": []}', b'{"items": null}', b'{"major": "1"}'):
        assert as_api_answer(raw)
