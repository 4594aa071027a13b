"""People's words to jobs on a real API server: signed by the operator's webhook, said with the
command line under the chart's roles, and refused while nobody signs.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.people import JOBS, People, say
from support.registry_plane import RegistryPlane
from support.signing import Signing

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

STARTED, CANCELLED = "kubenode.io/started-by", "kubenode.io/cancelled-by"


@pytest.fixture(scope="module")
def people(plane: RegistryPlane) -> Iterator[People]:
    found = People(plane)
    yield found
    found.leave()


@pytest.fixture(scope="module")
def signing(plane: RegistryPlane, people: People) -> Iterator[Signing]:
    plane.hook()
    found = Signing(plane, f"bot-{people.mark}")
    found.start()
    _until_signed(people)
    yield found
    found.stop()
    plane.unhook()


def _until_signed(people: People) -> None:
    """The API server hears of a new bundle some moments after it was written."""
    name, deadline = people.job(), time.monotonic() + 40
    body = {"spec": {"approvals": [{"decision": "Approve"}]}}
    while said := people.patch(people.alice, name, body):
        assert time.monotonic() < deadline, said
        time.sleep(0.2)


def test_a_word_has_its_speakers_name_whatever_was_written(
    people: People, signing: Signing
) -> None:
    name = people.job()
    forged = {"decision": "Approve", "by": "system:admin", "at": "2020-01-01T00:00:00Z"}
    assert people.patch(people.alice, name, {"spec": {"approvals": [forged]}}) == ""
    [word] = people.words(name)
    assert word["by"] == f"alice-{people.mark}"
    assert not word["at"].startswith("2020")


def test_what_was_said_stays(people: People, signing: Signing) -> None:
    name = people.job()
    assert say("approve", name, who=people.alice).returncode == 0
    for approvals in ([], [{"decision": "Deny"}]):
        said = people.patch(people.olga, name, {"spec": {"approvals": approvals}})
        assert f"spec.approvals[0]: Approve by alice-{people.mark} was written" in said
    assert [word["decision"] for word in people.words(name)] == ["Approve"]


def test_the_command_says_each_word_and_who_is_named(people: People, signing: Signing) -> None:
    name = people.job("NeedsHuman")
    said = say("job", "next", name, "--rung", "b", "--note", "swap it", who=people.alice)
    assert said.returncode == 0, said.stderr
    assert f"job {name} is sent to the next rung, by alice-{people.mark}" in said.stdout
    [word] = people.words(name)
    assert (word["decision"], word["rung"], word["note"]) == ("Next", 1, "swap it")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("approve", "JOB"), 1, "Approve is for a job that waits for approval; it is NeedsHuman"),
        (("job", "retry", "none-such"), 1, "there is no job none-such; `kubenode job list`"),
        (("job", "next", "JOB", "--rung", "z"), 2, "--rung: 'z' is no rung of this job"),
        (("job", "list", "--phase", "Sleeping"), 2, "there is no phase Sleeping; there are: Pen"),
        (("approve",), 2, "Missing argument"),
    ],
)
def test_what_cannot_be_said_is_told_with_what_could(
    people: People, signing: Signing, words: tuple[str, ...], code: int, told: str
) -> None:
    name = people.job("NeedsHuman")
    said = say(*(name if word == "JOB" else word for word in words), who=people.alice)
    assert said.returncode == code, said.stderr
    assert told in said.stderr
    assert people.words(name) == []


def test_who_has_no_right_is_told_which_one(people: People, signing: Signing) -> None:
    name = people.job()
    said = say("approve", name, who=people.victor)
    assert said.returncode == 1
    assert f"you may not patch {JOBS}.kubenode.io" in said.stderr
    assert "kubenode-approver" in said.stderr
    said = say("job", "list", who=people.nobody)
    assert said.returncode == 1 and "you may not list" in said.stderr
    said = say("explain", "job", name, who=people.victor)
    assert said.returncode == 0 and f"job {name}" in said.stdout, said.stderr


def test_a_cluster_that_is_away_ends_with_three(people: People, tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(people.alice.read_text().replace(people.cp.server, "https://127.0.0.1:1"))
    assert say("approve", "any", who=config).returncode == 3


def test_a_spokesman_speaks_for_others_and_is_named(people: People, signing: Signing) -> None:
    bot = people.user("bot", "kubenode-approver")
    name = people.job()
    body = {"spec": {"approvals": [{"decision": "Approve", "by": "carol"}]}}
    assert people.patch(bot, name, body) == ""
    assert people.words(name)[0]["by"] == f"carol through bot-{people.mark}"
    people.cp.kubectl("delete", "clusterrolebinding", f"bot-{people.mark}")


def test_impersonation_needs_its_right_and_names_the_impersonated(
    people: People, signing: Signing
) -> None:
    """The dashboard's way for people whom a proxy has logged in."""
    name, as_ = people.job(), ("--as", f"alice-{people.mark}")
    body = json.dumps({"spec": {"approvals": [{"decision": "Approve", "by": "victor"}]}})
    patch = ("patch", JOBS, name, "--type=merge", "-p", body)
    # kubectl remembers what the server serves; one that has to ask first is refused that, unnamed.
    people.cp.kubectl("get", JOBS)
    forged = people.cp.kubectl("--kubeconfig", people.victor, *as_, *patch, check=False)
    assert forged.returncode == 1 and "impersonate" in forged.stderr
    assert people.cp.kubectl(*as_, *patch).returncode == 0
    assert people.words(name)[0]["by"] == f"alice-{people.mark}"


def test_who_cancels_is_noted_and_the_note_stays(people: People, signing: Signing) -> None:
    name = people.job("Running")
    said = say("job", "cancel", name, who=people.alice)
    assert said.returncode == 0, said.stderr
    note = {"metadata": {"annotations": {CANCELLED: "victor", STARTED: "victor"}}}
    assert people.patch(people.olga, name, note) == ""
    assert people.read(name)["metadata"]["annotations"] == {CANCELLED: f"alice-{people.mark}"}


def test_without_a_signer_there_are_no_words_and_everything_else_goes_on(
    plane: RegistryPlane, people: People, signing: Signing
) -> None:
    name, other = people.job("NeedsHuman"), people.job("Running")
    signing.stop()
    try:
        said = say("job", "retry", name, who=people.alice)
        assert said.returncode == 1
        assert "takes no word without a name" in said.stderr and "Traceback" not in said.stderr
        assert people.words(name) == []
        label = {"metadata": {"labels": {"any": "thing"}}}
        assert people.patch(people.olga, name, label) == ""
        people.job("Pending")  # a rule's own
        said = say("job", "cancel", other, who=people.alice)
        assert said.returncode == 0, said.stderr
        assert "who cancelled it is not noted" in said.stdout
        assert people.read(other)["spec"]["cancel"] is True
    finally:
        signing.start()
    _until_signed(people)
