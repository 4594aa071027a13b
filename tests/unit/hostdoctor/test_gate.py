"""Who may tell Host Doctor something."""

from datetime import timedelta
from pathlib import Path

import pytest
from support.clock import FakeClock

from kubenode.runtime.tls.peer import Peer
from remedy.hostdoctor.gate import LOOPBACK, Caller, Gate, GateSettings, Unreadable

OLD, NEW = "0123456789abcdef-old", "0123456789abcdef-new"


def peer(name: str, *groups: str, ends: timedelta = timedelta(days=1)) -> Peer:
    return Peer(name, groups, FakeClock().now() + ends)


def test_every_line_of_every_file_is_a_token_and_files_are_read_again(tmp_path: Path) -> None:
    first, second = tmp_path / "alertmanager", tmp_path / "grafana"
    first.write_text(f"{OLD}\n\n")
    second.write_text("grafana-0123456789abcdef\n")
    clock = FakeClock()
    gate = Gate(clock, GateSettings((first, second)))
    assert gate.identify(OLD, None) == Caller("token alertmanager")
    assert gate.identify("grafana-0123456789abcdef", None) == Caller("token grafana")
    first.write_text(f"{OLD}\n{NEW}\n")
    clock.step(timedelta(seconds=3))
    assert gate.identify(OLD, None) == gate.identify(NEW, None) == Caller("token alertmanager")
    first.write_text(f"{NEW}\n")
    clock.step(timedelta(seconds=3))
    assert gate.identify(OLD, None) is None


@pytest.mark.parametrize("shown", ["", "short", OLD[:-1], OLD + "x", "\u2028" * 20, "x" * 100_000])
def test_nothing_else_is_a_token(tmp_path: Path, shown: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{OLD}\nshort\n\n")
    assert Gate(FakeClock(), GateSettings((file,))).identify(shown, None) is None


def test_a_file_that_cannot_be_read_lets_nobody_in(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="cannot be read"):
        Gate(FakeClock(), GateSettings((tmp_path / "none",))).identify(OLD, None)


@pytest.mark.parametrize(
    ("shown", "caller"),
    [
        (peer("kubenode:agent:n1", "kubenode:agents"), Caller("kubenode:agent:n1", "n1")),
        (peer("kubenode:agent:n1"), None),
        (peer("kubenode:agent:", "kubenode:agents"), None),
        (peer("kubenode:agent:n1", "kubenode:agents", ends=timedelta(0)), None),
        (peer("alertmanager"), Caller("alertmanager")),
        (peer("system:node:n1", "system:nodes"), None),
        (None, None),
    ],
)
def test_certificates(shown: Peer | None, caller: Caller | None) -> None:
    gate = Gate(FakeClock(), GateSettings(clients=frozenset({"alertmanager"})))
    assert gate.identify("", shown) == caller


def test_a_wrong_token_is_not_made_good_by_a_certificate() -> None:
    gate = Gate(FakeClock(), GateSettings(clients=frozenset({"alertmanager"}), anyone=True))
    assert gate.identify("wrong", peer("alertmanager")) is None
    assert gate.identify("", None) == LOOPBACK
