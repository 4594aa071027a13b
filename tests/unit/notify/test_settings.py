"""The receivers of the operator's settings: what may stand there, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import JobPhase
from remedy.notify.secret import Secret, SecretUnreadable
from remedy.notify.settings import Receiver

WEBHOOK: dict[str, Any] = {"webhook": {"url": "https://example.com/hook"}}


def refused(data: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        Receiver.model_validate(data)
    return "\n".join(problems(caught.value, Receiver))


def test_people_hear_by_default_of_what_waits_for_them_and_of_what_failed() -> None:
    assert Receiver.model_validate(WEBHOOK).on == [
        JobPhase.AWAITING_APPROVAL,
        JobPhase.NEEDS_HUMAN,
        JobPhase.FAILED,
    ]


def test_people_are_told_less_often_than_programs_unless_said_otherwise() -> None:
    people = Receiver.model_validate({"apprise": {"urls": ["mailto://mail.example.com"]}})
    assert (people.limit.count, people.limit.per.total_seconds()) == (10, 300)
    assert Receiver.model_validate(WEBHOOK).limit.count == 600
    assert Receiver.model_validate({**WEBHOOK, "rate": {"count": 3, "per": "1h"}}).limit.count == 3


def test_a_receiver_has_exactly_one_way() -> None:
    assert "write one of apprise, webhook, cloudEvents" in refused({})
    both = {**WEBHOOK, "cloudEvents": {"url": "https://example.com"}}
    assert "write one of apprise, webhook, cloudEvents" in refused(both)


@pytest.mark.parametrize(
    "url",
    ["slack://T1/B2/C3", "mailto://me:hidden@mail.example.com", "jsons://u:p@host/", "tgram://b/1"],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(url: str) -> None:
    told = refused({"apprise": {"urls": [url]}})
    assert "apprise.urls" in told and "fromFile" in told
    assert url not in told and "hidden" not in told


def test_a_secret_header_in_the_file_is_refused() -> None:
    told = refused({"webhook": {**WEBHOOK["webhook"], "headers": {"Authorization": "Bearer 1"}}})
    assert "webhook.headers.Authorization" in told and "Bearer" not in told
    plain = {"webhook": {**WEBHOOK["webhook"], "headers": {"X-Team": "nodes"}}}
    assert Receiver.model_validate(plain).webhook is not None


def test_a_header_that_would_begin_another_is_refused() -> None:
    told = refused({"webhook": {**WEBHOOK["webhook"], "headers": {"X-Team": "a\r\nX-Other: b"}}})
    assert "line break" in told


@pytest.mark.parametrize("url", ["ftp://example.com", "example.com", "https://", "http://[::1"])
def test_what_is_no_address_of_http_is_refused(url: str) -> None:
    assert "write https://HOST/PATH" in refused({"webhook": {"url": url}})


def test_an_unknown_field_is_named_with_a_suggestion() -> None:
    told = refused({**WEBHOOK, "minSeverty": "Critical"})
    assert "minSeverty" in told and "minSeverity" in told


def test_a_secret_is_read_anew_each_time_it_is_used(tmp_path: Path) -> None:
    file = tmp_path / "token"
    secret = Secret(from_file=str(file))
    file.write_text("first\n")
    assert secret.read() == "first"
    file.write_text("second")
    assert secret.read() == "second"


def test_a_missing_secret_names_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SecretUnreadable, match="no-such"):
        Secret(from_file=str(tmp_path / "no-such")).read()
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(SecretUnreadable, match="is empty"):
        Secret(from_file=str(tmp_path / "empty")).read()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(SecretUnreadable, match="no text"):
        Secret(from_file=str(tmp_path / "binary")).read()
    monkeypatch.delenv("KUBENODE_TEST_HOOK", raising=False)
    with pytest.raises(SecretUnreadable, match="KUBENODE_TEST_HOOK"):
        Secret(from_env="KUBENODE_TEST_HOOK").read()


def test_a_secret_is_in_one_place() -> None:
    for data in ({}, {"fromFile": "/a", "fromEnv": "B"}):
        with pytest.raises(ValidationError, match="either fromFile or fromEnv"):
            Secret.model_validate(data)
