"""YAML of people: every field has its place, and broken files say where."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kubenode.cli.app import app
from kubenode.cli.documents import UnreadableDocument, files, read

TEXT = """\
# a comment
apiVersion: kubenode.io/v1alpha1
kind: NodeRemedier
metadata: {name: a}
spec:
  when:
    all:
      - condition: {type: Ready, status: "False"}
      - event:
          reason: Oops
---
---
kind: Second
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "rule.yaml"
    file.write_text(TEXT)
    return file


def test_each_document_that_is_not_empty_is_read(path: Path) -> None:
    assert [d.data["kind"] for d in read(path)] == ["NodeRemedier", "Second"]


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ((), "2:1"),
        (("metadata", "name"), "4:12"),
        (("spec", "when", "all", 1, "event", "reason"), "10:11"),
        (("spec", "when", "all", 0), "8:9"),
        (("spec", "ladder"), "5:1"),
        (("spec", "when", "all", 0, "condition", "status", "deeper"), "8:34"),
    ],
)
def test_a_field_has_its_line_and_column_and_a_missing_one_its_parent_s(
    path: Path, field: tuple[str | int, ...], place: str
) -> None:
    document = next(read(path))
    assert document.where(field) == f"{path}:{place}"


def test_places_of_later_documents_count_from_the_file_s_start(path: Path) -> None:
    assert list(read(path))[1].where(("kind",)) == f"{path}:13:1"


def test_yaml_that_does_not_parse_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("a: 1\nb: [1, 2\nc: 3\n")
    with pytest.raises(UnreadableDocument, match=r"bad\.yaml:3:\d+: not valid YAML"):
        list(read(file))


def test_a_key_given_twice_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "twice.yaml"
    file.write_text("a: 1\na: 2\n")
    with pytest.raises(UnreadableDocument, match=r"twice\.yaml:2:1: not valid YAML: .*duplicate"):
        list(read(file))


def test_what_is_no_text_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "binary.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnreadableDocument, match="UTF-8"):
        list(read(file))


def test_folders_give_their_yaml_files_and_missing_names_an_error(
    path: Path, tmp_path: Path
) -> None:
    (tmp_path / "readme.md").write_text("no rule")
    assert files([tmp_path]) == [path]
    with pytest.raises(UnreadableDocument, match="no such file"):
        files([tmp_path / "absent.yaml"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnreadableDocument, match="no YAML file in this folder"):
        files([tmp_path / "empty"])


BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 8)}]\n"
    for below, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "too large once its aliases"),
        ("a: &a\n  - *a\n", "too large once its aliases"),
        ("[" * 300_000, "nests too deep"),
        ("- " * 300_000 + "a", "nests too deep"),
        ("a: {" * 300 + "}" * 300, "nests too deep"),
    ],
    ids=["bomb", "itself", "lists", "dashes", "maps"],
)
def test_what_would_grow_without_end_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(text)
    with pytest.raises(UnreadableDocument, match=words):
        list(read(file))


def test_a_dash_reads_standard_input() -> None:
    text = (
        "apiVersion: kubenode.io/v1alpha1\nkind: NodeRemedier\nmetadata: {name: x}\nspec: {a: 1}\n"
    )
    done = CliRunner().invoke(app, ["rules", "lint", "-"], input=text)
    assert done.exit_code == 1
    assert "-:4:" in done.stdout and "spec.a" in done.stdout
