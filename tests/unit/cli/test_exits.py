"""Exit codes, and errors as sentences: a traceback is for our own mistakes only."""

import pytest

from kubenode.cli import unsupported
from kubenode.cli.exits import Exit, Refusal, explained
from kubenode.runtime.kube.errors import ServerUnreachable, Unauthorized
from kubenode.runtime.kube.official import KubeconfigError
from kubenode.runtime.process import CannotStart


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CannotStart("port 8081 is taken"), Exit.FINDING),
        (KubeconfigError("kubeconfig x: no such file"), Exit.USAGE),
        (ServerUnreachable("ClientConnectorError"), Exit.UNREACHABLE),
        (Unauthorized(401, "Unauthorized", "no"), Exit.UNREACHABLE),
        (Refusal("not installed"), Exit.FINDING),
        (Refusal("does not answer", Exit.UNREACHABLE), Exit.UNREACHABLE),
        (ExceptionGroup("tasks", [ExceptionGroup("more", [CannotStart("a port")])]), Exit.FINDING),
        (KeyboardInterrupt(), 130),
    ],
)
def test_what_a_person_can_put_right_ends_with_its_code(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended, explained():
        raise error
    assert ended.value.code == code
    told = capsys.readouterr().err
    assert "Traceback" not in told


def test_our_own_mistakes_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), explained():
        raise ZeroDivisionError
    group = ExceptionGroup("tasks", [CannotStart("a port"), ZeroDivisionError()])
    with pytest.raises(ExceptionGroup), explained():
        raise group


@pytest.mark.parametrize("version", [(3, 10), (3, 15)])
def test_another_python_is_refused_with_the_reason_and_the_remedy(version: tuple[int, int]) -> None:
    why = unsupported(version)
    assert f"Python {version[0]}.{version[1]}" in why
    assert "make venv PYTHON=" in why


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13), (3, 14)])
def test_supported_pythons_pass(version: tuple[int, int]) -> None:
    assert unsupported(version) == ""
