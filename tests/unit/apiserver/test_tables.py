"""Cells of tables: durations as kubectl prints them, the JSONPath of printer columns, Accept."""

from typing import Any

import pytest

from simulation.apiserver.errors import ApiError
from simulation.apiserver.forms import Form, choose_form
from simulation.apiserver.tables import age, duration, json_path


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (8 * 3600 + 300, "8h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (9 * 86400 + 3600, "9d"),
        (800 * 86400, "2y"),
    ],
)
def test_durations_read_as_in_kubectl(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_age_of_nothing_is_unknown() -> None:
    assert age(None) == age("yesterday") == "<unknown>"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".spec.a", 1),
        (".spec.none.deeper", None),
        (".spec.list[1]", "y"),
        (".spec.list[9]", None),
        ('.status.conditions[?(@.type=="Ready")].status', "True"),
        ("status.conditions[?(@.type=='Other')].status", None),
        (r".metadata.labels.a\.b/c", "v"),
        (".metadata.labels['a.b/c']", "v"),
    ],
)
def test_json_path_of_printer_columns(path: str, value: Any) -> None:
    obj = {
        "metadata": {"labels": {"a.b/c": "v"}},
        "spec": {"a": 1, "list": ["x", "y"]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert json_path(path)(obj) == value


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.PLAIN),
        ("*/*", Form.PLAIN),
        ("application/vnd.kubernetes.protobuf,application/json", Form.PLAIN),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form.METADATA),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json", Form.PLAIN),
        ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,*/*", Form.PARTIAL),
    ],
)
def test_first_form_that_can_be_given_is_given(accept: str, form: Form) -> None:
    assert choose_form(accept, "") is form


def test_what_cannot_be_given_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        choose_form("application/vnd.kubernetes.protobuf", "")
    assert caught.value.code == 406
