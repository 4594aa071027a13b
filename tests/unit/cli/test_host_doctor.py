"""Settings of Host Doctor's listener that would let everybody in, or nobody, end the program."""

from pathlib import Path
from typing import Any

import pytest

from kubenode.cli.host_doctor import checked_host_doctor
from kubenode.cli.remedy_settings import RemedyFlags
from kubenode.runtime.process import CannotStart
from kubenode.runtime.settings import load

TOKEN = "0123456789abcdef0123"


def flags(folder: Path, **given: Any) -> RemedyFlags:
    for name in ("tokens", "short", "ca"):
        (folder / name).write_text(TOKEN if name == "tokens" else "short")
    paths = {key: str(folder / value) for key, value in given.items() if key.endswith("_file")}
    return load(RemedyFlags, {"host_doctor_port": 0, **given, **paths})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"host_doctor_cert_file": "ca"}, "belong together"),
        ({"host_doctor_client_ca_file": "none"}, "cannot be read"),
        ({"host_doctor_token_files": "/nowhere/tokens"}, "cannot be read"),
        ({"host_doctor_plain_http": True, "host_doctor_client_ca_file": "ca"}, "without TLS"),
        ({"host_doctor_clients": "alertmanager"}, "needs --host-doctor-client-ca-file"),
        ({"host_doctor_address": "0.0.0.0"}, "anyone might tell it anything"),
    ],
)
def test_refused(tmp_path: Path, given: dict[str, Any], why: str) -> None:
    with pytest.raises(CannotStart, match=why):
        checked_host_doctor(flags(tmp_path, **given))


def test_a_file_without_a_token_of_some_length_is_none(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="openssl rand -hex 32"):
        checked_host_doctor(flags(tmp_path, host_doctor_token_files=str(tmp_path / "short")))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"host_doctor_address": "0.0.0.0", "host_doctor_client_ca_file": "ca"},
        {"host_doctor_plain_http": True},
    ],
)
def test_taken(tmp_path: Path, given: dict[str, Any]) -> None:
    settings = flags(tmp_path, **given)
    checked_host_doctor(settings)
    assert settings.host_doctor_names[0] == "kubenode-host-doctor.kubenode-system.svc"


def test_several_files_and_names_have_commas_between(tmp_path: Path) -> None:
    tokens = f"{tmp_path / 'tokens'}, {tmp_path / 'tokens'}"
    settings = flags(
        tmp_path,
        host_doctor_token_files=tokens,
        host_doctor_clients="a, b",
        host_doctor_client_ca_file="ca",
    )
    checked_host_doctor(settings)
    assert len(settings.host_doctor_tokens) == 2
    assert settings.host_doctor_allowed == {"a", "b"}
