"""Without any webhook: the chart's policy refuses words that are not their writer's."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.people import People, say
from support.registry_plane import CHART, RegistryPlane
from support.webhook_world import a_spec, an_object

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

POLICY = CHART / "words.yaml"


@pytest.fixture(scope="module")
def people(plane: RegistryPlane) -> Iterator[People]:
    found = People(plane)
    plane.cp.kubectl("apply", "-f", POLICY)
    try:
        _until_enforced(found)
        yield found
    finally:
        plane.cp.kubectl("delete", "-f", POLICY)
        found.leave()


def forged(people: People, who: Path, name: str, by: str) -> str:
    word = {"decision": "Approve", "by": by, "at": "2026-01-01T00:00:00Z"}
    return people.patch(who, name, {"spec": {"approvals": [*people.words(name), word]}})


def _until_enforced(people: People) -> None:
    """The API server reads new policies every few seconds."""
    deadline = time.monotonic() + 60
    while not forged(people, people.alice, people.job(), "victor"):
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_the_commands_words_are_their_speakers(people: People) -> None:
    name = people.job()
    said = say("approve", name, "--note", "go", who=people.alice)
    assert said.returncode == 0, said.stderr
    [word] = people.words(name)
    assert (word["by"], word["note"]) == (f"alice-{people.mark}", "go")


def test_nobody_speaks_for_another(people: People) -> None:
    name, alice = people.job(), f"alice-{people.mark}"
    for by in ("victor", "", f"{alice}x", "system:admin"):
        assert f'needs its writer as `by`: "{alice}"' in forged(people, people.alice, name, by)
    assert forged(people, people.alice, name, f"carol through {alice}") == ""


def test_what_was_said_stays_and_is_not_said_twice(people: People) -> None:
    name = people.job()
    assert forged(people, people.alice, name, f"alice-{people.mark}") == ""
    [word] = people.words(name)
    other = {**word, "note": "another"}
    for approvals in ([], [other], [word, word], [word, {**other, "by": f"alice-{people.mark}"}]):
        body = {"spec": {"approvals": approvals}}
        assert "approvals" in people.patch(people.olga, name, body), approvals
    assert people.words(name) == [word]


def test_everything_else_is_left_alone(people: People) -> None:
    name = people.job("Running")
    assert people.patch(people.olga, name, {"metadata": {"labels": {"any": "thing"}}}) == ""
    assert say("job", "cancel", name, who=people.alice).returncode == 0


def test_nobody_names_another_as_author_or_acceptor_of_a_rule(
    people: People, plane: RegistryPlane
) -> None:
    author, acceptor = "kubenode.io/author", "kubenode.io/accepted-by"

    def write(**annotations: str) -> str:
        rule = an_object(f"rule-{people.mark}", a_spec(mode="DryRun"))
        named = {f"kubenode.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
        metadata = {"name": rule["metadata"]["name"], "annotations": named}
        return plane.apply({**rule, "metadata": metadata}).stderr

    assert 'write "admin", or leave it out' in write(author="alice")
    assert f'metadata.annotations[{author}]: "alice"' in write(author="alice")
    assert f'metadata.annotations[{acceptor}]: "bob"' in write(accepted_by="bob")
    assert write() == ""
    assert write(author="admin", accept_blast_radius="3", accepted_by="admin") == ""
    plane.cp.kubectl("delete", "noderemedier", f"rule-{people.mark}")
