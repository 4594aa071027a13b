"""A release has one version, which every file that names one repeats."""

import pytest

from agent.packages.build import project_version
from devtools.release import PLACES, ROOT, CannotRelease, check_versions, recipe_files

TEXTS = {name: (ROOT / name).read_text() for name in PLACES}
VERSION = project_version()


def test_every_file_names_the_version_of_the_project() -> None:
    check_versions(VERSION, TEXTS)


@pytest.mark.parametrize("name", PLACES)
def test_another_version_is_refused_with_file_and_remedy(name: str) -> None:
    older = {**TEXTS, name: TEXTS[name].replace(VERSION, "0.0.9")}
    with pytest.raises(CannotRelease, match=rf"^{name}: .*0\.0\.9.*; write {VERSION} there"):
        check_versions(VERSION, older)


def test_a_file_without_a_version_is_refused() -> None:
    name = "charts/kubenode/Chart.yaml"
    with pytest.raises(CannotRelease, match=f"{name}: no version where"):
        check_versions(VERSION, {**TEXTS, name: "name: kubenode\n"})


def test_a_version_that_helm_refuses_is_no_version() -> None:
    with pytest.raises(CannotRelease, match=r"version 1\.2 is not of the form 1\.2\.3"):
        check_versions("1.2", TEXTS)


def test_the_recipe_holds_what_the_images_are_built_from() -> None:
    names = {str(file.relative_to(ROOT)) for file in recipe_files()}
    assert {"images/build.sh", "images/Containerfile", "requirements.lock", "LICENSE"} <= names
    assert {"kubenode/cli/__init__.py", "agent/main.py", "captain/operator.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "devtools/", ".venv/"))]
    assert not [name for name in names if "__pycache__" in name]
