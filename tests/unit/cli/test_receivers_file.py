"""The file of receivers: what is wrong is said with file, line, field and what to do."""

import re
from pathlib import Path

import pytest

from kubenode.cli.exits import Refusal
from kubenode.cli.receivers_file import received

GOOD = """\
cluster: prod-1
receivers:
  oncall:
    apprise:
      urls: ["mailto://mail.example.com/?from=k@example.com&to=o@example.com", {fromFile: CHAT}]
    minSeverity: Warning
  tickets:
    webhook:
      url: https://tickets.example.com/hook
      headers: {Authorization: {fromFile: CHAT}}
    on: [NeedsHuman]
    allRules: true
objects:
  self-node-remediation:
    apiVersion: self-node-remediation.medik8s.io/v1alpha1
    kind: SelfNodeRemediation
    plural: selfnoderemediations
    namespace: self-node-remediation
    name: "{{ node }}"
    spec: {remediationStrategy: Automatic}
    doneWhen: {condition: {type: Succeeded}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "chat").write_text("slack://token@T0000/B0000/C0000/#nodes\n")
    return tmp_path / "receivers.yaml"


def written(file: Path, text: str) -> str:
    file.write_text(text.replace("CHAT", str(file.parent / "chat")))
    return str(file)


def refused(file: Path, text: str) -> str:
    with pytest.raises(Refusal) as caught:
        received(written(file, text))
    return str(caught.value)


def test_a_file_with_everything(file: Path) -> None:
    (file.parent / "chat").write_text("json://localhost/x")
    outside = received(written(file, GOOD))
    assert outside is not None and outside.cluster == "prod-1"
    assert list(outside.receivers) == ["oncall", "tickets"]
    template = outside.objects["self-node-remediation"]
    assert template.done_when is not None and not template.keep
    assert received(None) is None


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("minSeverity: Warning", "minSeverity: Bad", ("receivers.oncall.minSeverity", "Critical")),
        ("    on: [NeedsHuman]", "    on: [Asleep]", ("receivers.tickets.on[0]", "NeedsHuman")),
        ("tickets:", "Tickets!:", ("receivers", "form")),
        ("allRules: true", "title: '{{ nod }}'", ("receivers.tickets.title", "undefined")),
        ("fromFile: CHAT}]", "fromFile: /no/such}]", ("urls[1]", "/no/such")),
        ("fromFile: CHAT}]", "fromEnv: NO_SUCH_VARIABLE}]", ("urls[1]", "NO_SUCH_VARIABLE")),
        ("{fromFile: CHAT}}", "{fromFile: /no/such}}", ("headers.Authorization", "/no/such")),
        ("on: [NeedsHuman]", "on: []\n    timeout: 2m", ("receivers.tickets.timeout", "1m")),
        ("https://tickets", "https://u:p@tickets", ("receivers.tickets.webhook.url", "password")),
        ("headers: {Auth", "caFile: /no/such\n      headers: {Auth", ("caFile", "/no/such")),
        ('"{{ node }}"', '"{% node %}"', ("objects.self-node-remediation.name", "template")),
        ("plural: selfnode", "plural: Selfnode", ("objects.self-node-remediation.plural",)),
        ("kind: Self", "knd: Self", ("knd", "did you mean kind?")),
        ("spec: {rem", "labels: {kubenode.io/job: x}\n    spec: {rem", ("KubeNode's own",)),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    file: Path, old: str, new: str, told: tuple[str, ...]
) -> None:
    (file.parent / "chat").write_text("json://localhost/x")
    assert old in GOOD
    text = refused(file, GOOD.replace(old, new, 1))
    assert str(file) in text
    for part in told:
        assert part in text


def test_an_address_that_nobody_knows_is_refused_without_telling_it(file: Path) -> None:
    (file.parent / "chat").write_text("nobody://secret-token/x")
    text = refused(file, GOOD)
    assert "urls[1]" in text and "apprise knows" in text and "secret-token" not in text


@pytest.mark.parametrize("text", ["", "- a\n", "a: 1\n---\nb: 2\n", "receivers: {\n"])
def test_what_is_no_such_file_is_refused(file: Path, text: str) -> None:
    assert str(file) in refused(file, text)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no-such"):
        received(str(tmp_path / "no-such.yaml"))


def test_the_examples_of_the_documentation_can_be_read(file: Path) -> None:
    text = (Path(__file__).parents[3] / "docs/notifications.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    whole = [block for block in blocks if "receivers:\n" in block or "objects:\n" in block]
    assert len(whole) == 2
    (file.parent / "slack").write_text("json://localhost/")
    (file.parent / "tickets").write_text("Bearer x")
    for block in whole:
        block = block.replace("/etc/kubenode/receivers", str(file.parent))
        block = block.replace("      caFile: /etc/kubenode/ca.pem", "#")
        assert received(written(file, block)) is not None
