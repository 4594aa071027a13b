"""`kubenode providers check`, and the providers file of `kubenode run`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from support.embedded import EmbeddedPlane

from kubenode.cli.exits import Refusal
from kubenode.cli.options import ReportFormat
from kubenode.cli.program import Flags
from kubenode.cli.providers_check import checked
from kubenode.cli.run_all import everything
from kubenode.cli.run_remedy import remedy

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
SWITCH = """\
#!/bin/sh
case "$1 $2" in
"state w1") echo on ;;
"state w2") echo "no right to see w2" >&2; exit 77 ;;
*) echo "$1 must never be called" >&2; exit 1 ;;
esac
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane() as found:
        for name, provider_id in (
            ("w1", "kubenode-local://w1"),
            ("w2", "kubenode-local://w2"),
            ("w3", "kind://docker/kind/w3"),
        ):
            node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            node["spec"] = {"providerID": provider_id}
            found.kubectl("create", "-f", "-", stdin=json.dumps(node))
        yield found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    switch = tmp_path / "switch"
    switch.write_text(SWITCH)
    switch.chmod(0o755)
    made = tmp_path / "providers.yaml"
    made.write_text(f"- {{type: local, command: [{switch}]}}\n")
    return made


async def test_each_node_is_shown_with_its_provider_and_what_it_says(
    plane: EmbeddedPlane, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def shown(*wanted: str, output: ReportFormat = ReportFormat.TABLE) -> tuple[int, str]:
        code = await checked(str(file), wanted, output, str(plane.kubeconfig), None)
        return code, capsys.readouterr().out

    code, told = await shown(output=ReportFormat.JSON)
    rows = {row["node"]: (row["provider"], row["power"]) for row in json.loads(told)}
    assert code == 1
    assert rows == {"w1": ("local", "On"), "w2": ("local", ""), "w3": ("", "")}
    code, told = await shown("w1")
    assert (code, told.splitlines()[1].split()) == (0, ["w1", "local", "On", "on"])
    _, told = await shown()
    lines = told.splitlines()
    assert "Denied: " in lines[2] and "no right to see w2" in lines[2]
    assert lines[3].endswith("nobody's machine: kind://docker/kind/w3")
    with pytest.raises(Refusal, match="there is no node w9"):
        await shown("w9")


@pytest.mark.parametrize("program", [remedy, everything])
def test_a_providers_file_with_a_mistake_ends_the_program_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], program: Callable[[Flags], None]
) -> None:
    file = tmp_path / "providers.yaml"
    file.write_text("- type: aws\n  region: Europe\n")
    with pytest.raises(SystemExit) as ended:
        program({"providers_file": str(file), "kubeconfig": str(tmp_path / "none")})
    assert ended.value.code == 2
    assert f"{file}:2:3: [0].region: " in capsys.readouterr().err


async def test_sources_of_events_are_asked_too(
    plane: EmbeddedPlane,
    file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws():
        url = boto3.client("sqs", region_name="eu-west-1").create_queue(QueueName="k")["QueueUrl"]
        gone = url.replace("/k", "/none")
        add_events(file, url, gone)
        code = await checked(str(file), ["w1"], ReportFormat.JSON, str(plane.kubeconfig), None)
    sources = [row for row in json.loads(capsys.readouterr().out) if "source" in row]
    assert code == 1, "one queue is not there"
    assert [(row["source"], row["answers"]) for row in sources] == [
        ("aws", True),
        ("aws", True),
        ("aws-queue", True),
        ("aws-queue", False),
    ]
    assert "no dead-letter queue" in sources[2]["about"]
    assert "NonExistentQueue" in sources[3]["about"]


def add_events(file: Path, *queues: str) -> None:
    entries = [
        f"- {{type: aws, region: eu-west-1, events: {{queueURL: {url}}}}}\n" for url in queues
    ]
    file.write_text(file.read_text() + "".join(entries))
