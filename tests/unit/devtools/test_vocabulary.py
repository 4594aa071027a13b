"""The vocabulary check on small trees: what it reports, and that its baseline only shrinks."""

import ast
from pathlib import Path

import pytest

from devtools.vocabulary import (
    BASELINE,
    PACKAGES,
    ROOT,
    NameFinding,
    defined_names,
    is_participle,
    read_baseline,
    run,
    scan,
    vague_words,
    write_baseline,
)


def a_tree(root: Path, files: dict[str, str]) -> Path:
    """Write `files`, by path, and the baseline that fits them."""
    for path, source in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    baseline = root / BASELINE
    if not baseline.exists():
        baseline.parent.mkdir(exist_ok=True)
        baseline.write_text(write_baseline(scan(root)))
    return root


def test_class_name_is_reported_in_each_file_when_two_classes_share_it(tmp_path: Path) -> None:
    tree = a_tree(
        tmp_path,
        {
            "agent/a.py": "class Metrics: ...\nclass AgentMetrics: ...\n",
            "rules/b.py": "def f():\n    class Metrics: ...\n",
        },
    )
    assert scan(tree) == {
        NameFinding("agent/a.py", "class", "Metrics"): 1,
        NameFinding("rules/b.py", "class", "Metrics"): 1,
    }


def test_tests_are_not_part_of_the_tree(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {"agent/a.py": "class A: ...", "tests/a.py": "class A: ...\nfound = 1"})
    assert scan(tree) == {}


@pytest.mark.parametrize(
    "module", ["leaving", "job_listing", "explaining_job", "granted", "rules_recorded"]
)
def test_participle_is_no_module_name(module: str) -> None:
    assert is_participle(module)


@pytest.mark.parametrize(
    "module", ["string", "scheduling", "network_testing", "threaded_instances", "feed", "", "node"]
)
def test_noun_is_a_module_name(module: str) -> None:
    assert not is_participle(module)


def test_package_is_checked_as_a_module(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {"agent/publishing/__init__.py": "", "agent/nodestatus/board.py": ""})
    assert scan(tree) == {
        NameFinding("agent/publishing/__init__.py", "participle", "publishing"): 1
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("leave", "leaving"),
        ("plan", "planning"),
        ("import", "importing"),
        ("schedule", "scheduling"),
    ],
)
def test_pair_is_reported_when_names_differ_by_ing(tmp_path: Path, one: str, other: str) -> None:
    tree = a_tree(tmp_path, {f"rules/{one}.py": "", f"rules/{other}.py": "", f"agent/{one}.py": ""})
    pairs = [finding for finding in scan(tree) if finding.kind == "pair"]
    assert pairs == [NameFinding("rules", "pair", f"{one}/{other}")]


def test_neighbours_are_no_pair_when_only_their_first_letters_are_equal(tmp_path: Path) -> None:
    assert scan(a_tree(tmp_path, {"rules/ring.py": "", "rules/r.py": "", "rules/rin.py": ""})) == {}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("class JobSeen: ...", "JobSeen"),
        ("def look_up(): ...", "look_up"),
        ("async def told(): ...", "told"),
        ("def f(kept, /): ...", "kept"),
        ("def f(*, kept): ...", "kept"),
        ("lambda words: 0", "words"),
        ("found = 1", "found"),
        ("found: int", "found"),
        ("self.found = 1", "found"),
        ("for one in (): ...", "one"),
        ("[1 for one in ()]", "one"),
        ("with f() as held: ...", "held"),
        ("if (held := 1): ...", "held"),
        ("import x as said", "said"),
        ("try: ...\nexcept E as heard: ...", "heard"),
        ("match x:\n case [y, *over]: ...", "over"),
        ("match x:\n case {'a': 1, **ways}: ...", "ways"),
        ("match x:\n case thing: ...", "thing"),
    ],
)
def test_name_is_listed_where_it_is_bound(source: str, name: str) -> None:
    assert (name, source.startswith("class")) in set(defined_names(ast.parse(source)))
    assert vague_words(name)


@pytest.mark.parametrize(
    "source", ["f(found)", "x.found", "del found", "import found", "f(told=1)"]
)
def test_name_that_is_only_read_is_not_listed(source: str) -> None:
    assert list(defined_names(ast.parse(source))) == []


@pytest.mark.parametrize(
    "name", ["zone", "foundation", "Telephone", "overlay", "oneshot", "LEFTOVER"]
)
def test_word_inside_another_is_not_vague(name: str) -> None:
    assert vague_words(name) == ()


@pytest.mark.parametrize(
    "name", ["JobSeen", "seen_at", "LAST_SEEN", "HTTPSeen", "_seen2", "seenAt"]
)
def test_vague_word_is_a_part_in_snake_or_camel_case(name: str) -> None:
    assert vague_words(name) == ("seen",)


def test_check_passes_when_the_baseline_fits(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {"agent/a.py": "found = 1\nfound = 2\n"})
    assert run(["--check"], tree) == ""
    assert (tree / BASELINE).read_text() == "agent/a.py vague found 2\n"


@pytest.mark.parametrize("arguments", [[], ["--check"]])
@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("agent/a.py", "found = 1\nfound = 2\n"),
        ("agent/a.py", "found = 1\ntold = 1\n"),
        ("agent/new.py", "found = 1\n"),
        ("agent/new.py", "class A: ...\n"),
        ("agent/healing.py", ""),
    ],
)
def test_new_finding_is_refused_and_named(
    tmp_path: Path, path: str, source: str, arguments: list[str]
) -> None:
    tree = a_tree(tmp_path, {"agent/a.py": "found = 1\n", "agent/b.py": "class A: ...\n"})
    before = (tree / BASELINE).read_text()
    a_tree(tree, {path: source})
    assert path in run(arguments, tree)
    assert (tree / BASELINE).read_text() == before


def test_check_fails_until_a_smaller_tree_has_its_baseline_rewritten(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {"agent/a.py": "found = 1\n", "agent/b.py": "found = 1\n"})
    a_tree(tree, {"agent/a.py": "node = 1\n"})
    assert "lists 2 findings, the tree has 1" in run(["--check"], tree)
    assert run([], tree) == ""
    assert run(["--check"], tree) == ""
    assert (tree / BASELINE).read_text() == "agent/b.py vague found 1\n"


def test_file_may_not_take_what_another_gives_up(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {"agent/a.py": "found = found = 1\n", "agent/b.py": "found = 1\n"})
    a_tree(tree, {"agent/a.py": "found = 1\n", "agent/b.py": "found = found = 1\n"})
    assert "agent/b.py: vague found: 2, was 1" in run([], tree)


def test_moved_file_keeps_its_findings(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {"agent/a.py": "found = 1\n", "agent/waking.py": "told = 1\n"})
    (tree / "simulation").mkdir()
    (tree / "agent/a.py").rename(tree / "simulation/a.py")
    (tree / "agent/waking.py").rename(tree / "simulation/waking.py")
    assert "elsewhere" in run(["--check"], tree)
    assert run([], tree) == ""
    assert run(["--check"], tree) == ""


def test_baseline_that_cannot_be_read_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {"agent/a.py": "found = 1\n"})
    (tree / BASELINE).write_text("<<<<<<< ours\nagent/a.py vague found 1\n")
    assert "merge conflict" in run([], tree)
    (tree / BASELINE).unlink()
    assert "no such file" in run([], tree)


def test_no_option_grows_the_baseline(tmp_path: Path) -> None:
    assert run(["--grow"], a_tree(tmp_path, {})).startswith("usage:")


def test_baseline_of_this_repository_is_sorted_and_reads_back() -> None:
    text = (ROOT / BASELINE).read_text()
    assert write_baseline(read_baseline(text)) == text


def test_every_package_is_checked() -> None:
    """A new package too."""
    assert {each.parent.name for each in ROOT.glob("*/__init__.py")} <= {*PACKAGES}
