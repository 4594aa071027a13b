"""Certificate files that somebody else renews: read again, and told when nobody renews them."""

import logging
from datetime import timedelta
from pathlib import Path

import pytest
from support.clock import FakeClock

from kubenode.runtime.process import CannotStart
from kubenode.runtime.tls.certificates import Pair, new_authority, new_serving
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.files import FileKeeper, PemFiles, start_webhook_files

DAY = timedelta(days=1)


def write(folder: Path, clock: FakeClock, life: timedelta) -> Pair:
    authority = new_authority(life, clock.now())
    pair = new_serving(authority, ["hook"], life, clock.now())
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    return pair


def test_a_renewed_certificate_is_served_with(tmp_path: Path) -> None:
    clock, context = FakeClock(), LiveContext()
    first = write(tmp_path, clock, 10 * DAY)
    keeper = FileKeeper(clock, context, PemFiles(tmp_path / "tls.crt", tmp_path / "tls.key"))
    keeper.start("--webhook-cert-file")
    assert context.pair == first
    second = write(tmp_path, clock, 10 * DAY)
    keeper.refresh()
    assert context.pair == second


def test_a_certificate_that_nobody_renews_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    write(tmp_path, clock, 100 * DAY)
    files = PemFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    keeper = FileKeeper(clock, LiveContext(), files)
    keeper.start("--webhook-cert-file")
    with caplog.at_level(logging.WARNING):
        clock.step(80 * DAY)
        keeper.refresh()
        assert caplog.records == []
        clock.step(15 * DAY)
        keeper.refresh()
        keeper.refresh()
        (record,) = caplog.records
        assert "nobody has renewed it" in record.__dict__["why"]
        write(tmp_path, clock, 100 * DAY)
        keeper.refresh()
    assert len(caplog.records) == 1


def test_a_webhook_serves_with_its_files_from_the_start(tmp_path: Path) -> None:
    clock, context = FakeClock(), LiveContext()
    pair = write(tmp_path, clock, 10 * DAY)
    files = PemFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    assert start_webhook_files(clock, context, files, "--guard") is not None
    assert context.pair == pair


def test_a_webhook_without_files_has_no_keeper_of_files() -> None:
    context = LiveContext()
    assert start_webhook_files(FakeClock(), context, PemFiles(), "--guard") is None
    assert context.pair is None


@pytest.mark.parametrize("names", [("tls.crt", None), (None, "tls.key")])
def test_a_certificate_without_its_key_names_both_flags(
    tmp_path: Path, names: tuple[str | None, str | None]
) -> None:
    write(tmp_path, FakeClock(), DAY)
    files = PemFiles(*(tmp_path / name if name else None for name in names))
    with pytest.raises(CannotStart, match="--guard-cert-file and --guard-key-file belong together"):
        start_webhook_files(FakeClock(), LiveContext(), files, "--guard")


def test_a_file_that_is_missing_names_the_flag(tmp_path: Path) -> None:
    files = PemFiles(tmp_path / "none.crt", tmp_path / "none.key")
    with pytest.raises(CannotStart, match=r"none\.crt cannot be read: .*; see --guard-cert-file"):
        start_webhook_files(FakeClock(), LiveContext(), files, "--guard")
