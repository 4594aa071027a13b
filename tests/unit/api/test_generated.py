"""What is written from the models: CRDs and the reference."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from support.api_objects import GOOD

from devtools import api_reference as reference
from devtools import crds
from devtools.generators import run
from kubenode.api import crd
from kubenode.api.base import Resource
from kubenode.api.structural import structural_schema
from kubenode.api.v1alpha1 import KINDS
from kubenode.api.v1alpha1.leaves import DEPTH

ANNOTATION_BYTES = 256 * 1024 - 2048
"""kubectl keeps what it applied in an annotation. All annotations of an object together may take
256 KiB (TotalAnnotationSizeLimitB of apimachinery); 2 KiB are for the others.
"""


def compact(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from nodes(below, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from nodes(schema[name], f"{path}[]")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_crd_fits_into_kubectls_annotation(kind: type[Resource]) -> None:
    text = compact(crd.definition(kind))
    escaped = re.sub("[&<>]", r"\\u0000", text)  # as Go's encoder writes them
    assert len(escaped) < ANNOTATION_BYTES


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_yaml_says_what_was_generated_in_yaml_1_1_too(kind: type[Resource]) -> None:
    text = crd.as_yaml(crd.definition(kind))
    assert YAML(typ="safe", pure=True).load(io.StringIO(text)) == crd.definition(kind)
    bare = re.compile(r"(: |- )(y|yes|n|no|on|off)$", re.IGNORECASE | re.MULTILINE)
    assert not bare.search(text), "kubectl would read a boolean"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_text_list_and_map_of_a_spec_has_a_bound(kind: type[Resource]) -> None:
    for path, node in nodes(structural_schema(kind)["properties"]["spec"]):
        if len(re.findall(r"\.(?:all|any|not|absent|cleared)\b", path)) > 1 or ".cleared" in path:
            continue  # copies inside an expression carry no limits, see structural.py
        match node.get("type"):
            case "string":
                assert {"maxLength", "enum", "format"} & node.keys(), path
            case "array":
                assert "maxItems" in node, path
            case "object" if "additionalProperties" in node:
                assert "maxProperties" in node, path


def test_expression_is_unrolled_to_its_depth_and_ends_in_leaves() -> None:
    spec = structural_schema(KINDS[0])["properties"]["spec"]["properties"]
    here = spec["when"]
    for _ in range(DEPTH):
        assert {"all", "any", "not", "condition"} <= here["properties"].keys()
        here = here["properties"]["not"]
    assert not {"all", "any", "not"} & here["properties"].keys()
    assert {"condition", "event", "fact", "label", "absent"} <= here["properties"].keys()


@pytest.mark.parametrize("name", GOOD)
def test_good_object_fits_the_schema(name: str) -> None:
    kind = next(kind for kind in KINDS if kind.__name__ == GOOD[name]["kind"])
    schema = structural_schema(kind)
    written = kind.from_user(GOOD[name]).to_dict()
    # exclusiveMinimum is a boolean in OpenAPI 3.0, and unknown to this newer validator.
    plain = json.loads(compact(schema).replace('"exclusiveMinimum":true', '"x":true'))
    assert not list(Draft202012Validator(plain).iter_errors(written))


@pytest.mark.exhaustive
def test_files_of_the_repository_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert crds.main(["--check"]) == 0
    assert reference.main(["--check"]) == 0


def test_check_names_the_file_and_the_remedy_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    assert run({file: "new"}, ["--check"]) == 1
    assert not file.exists()
    said = f"{file} is not what its generator writes now: run `make docs`\n"
    assert capsys.readouterr().err == said
    assert run({file: "new"}, []) == 0
    assert run({file: "new"}, ["--check"]) == 0
    assert file.read_text() == "new"


def test_unknown_argument_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run({}, ["--chekc"]) == 2
    assert "give none, or --check" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_reference_links_lead_somewhere_and_describe_every_field() -> None:
    page = reference.FILE.read_text()  # as it would be made: see above
    titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    anchors = [title.lower().replace(" ", "-") for title in titles]
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= set(anchors)
    for kind in KINDS:
        for name, part in kind.model_json_schema(by_alias=True)["$defs"].items():
            assert (
                name in titles
                or name in ("ObjectMeta", "OwnerReference")
                or "properties" not in part
            ), name


def test_no_two_kinds_share_a_name() -> None:
    infos = [kind.resource for kind in KINDS]
    names = [name for i in infos for name in {i.plural, i.kind.lower(), i.short_name}]
    assert sorted(names) == sorted(set(names))
