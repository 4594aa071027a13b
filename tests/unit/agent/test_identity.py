"""The agent's key and certificate: made here, kept whole, renewed in time."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0
from support.expired import expired_pair, pair_of
from support.lossy_disk import LossyDisk
from support.machine_requests import a_request

from agent.identity import pem
from agent.identity.dates import dates
from agent.identity.issuance import request_name
from agent.identity.pem import BadPem, Validity
from agent.identity.store import IdentityStore, StoreError
from machine.certificates.requests import read
from machine.names import AGENT_GROUP, agent_user

PAIR, KEY = expired_pair("h1", T0), pem.new_key()


def test_what_the_agent_asks_for_is_what_the_approver_grants() -> None:
    asked = read(pem.new_request(pem.new_key(), "h1"))
    assert (asked.signed, asked.key) == (True, "")
    assert asked.common_names == (agent_user("h1"),) and asked.organizations == (AGENT_GROUP,)
    assert not asked.san and not asked.more_names


def test_a_long_name_is_no_obstacle() -> None:
    name = "h" * 200 + ".example.org"
    assert read(pem.new_request(pem.new_key(), name)).common_names == (agent_user(name),)
    assert len(request_name(name, "0" * 20, "c")) <= 253


def test_a_certificate_is_ours_by_its_key_and_its_name() -> None:
    found = pem.validity(PAIR, "h1")
    assert found.ends == T0 - timedelta(hours=1)
    for pair, agent in (
        (PAIR, "h2"),
        (pem.new_key() + PAIR.partition(b"-----END PRIVATE KEY-----\n")[2], "h1"),
        (pem.key_of(PAIR), "h1"),
        (a_request("x"), "h1"),
        (b"", "h1"),
    ):
        with pytest.raises(BadPem) as error:
            pem.validity(pair, agent)
        assert "PRIVATE" not in str(error.value)


def test_it_is_due_at_two_thirds_of_its_life_and_not_with_all_others() -> None:
    month = Validity(T0, T0 + timedelta(days=30))
    due = [month.due_at(n / 10) - T0 for n in range(11)]
    assert due == sorted(due) and len(set(due)) == 11
    assert timedelta(days=18) <= due[0] and due[-1] <= timedelta(days=22)
    assert month.due_at(0.5) - T0 == timedelta(days=20)
    assert pem.spread_of(PAIR) == pem.spread_of(PAIR)
    assert 0 <= pem.spread_of(PAIR) < 1


@given(st.integers(-600_000_000, 7_000_000_000), st.integers(1, 3_000_000_000))
def test_dates_are_read_as_cryptography_reads_them(begin: int, life: int) -> None:
    begins = datetime.fromtimestamp(begin, UTC)
    pair = pair_of("h1", begins, begins + timedelta(seconds=life))
    found = x509.load_pem_x509_certificate(pair)
    assert dates(pair) == (found.not_valid_before_utc, found.not_valid_after_utc)


@given(st.integers(0, len(PAIR)), st.binary(max_size=6), st.integers(0, 20))
def test_no_bytes_make_the_reading_of_dates_fail_otherwise(at: int, junk: bytes, cut: int) -> None:
    try:
        dates(PAIR[:at] + junk + PAIR[at + cut :])
    except ValueError as error:
        assert str(error)


def test_its_files_are_root_s_alone_and_written_whole(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = IdentityStore(tmp_path / "identity")
        store.keep_next(PAIR)
        store.adopt()
        store.keep_key(KEY)
    finally:
        os.umask(before)
    assert store.read_current() == PAIR
    assert store.read_next() == b""
    assert (tmp_path / "identity").stat().st_mode & 0o777 == 0o700
    assert store.current.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "identity" / "next.key").stat().st_mode & 0o777 == 0o600


def test_a_write_that_was_cut_off_leaves_the_old_file(tmp_path: Path) -> None:
    store = IdentityStore(tmp_path)
    store.keep_next(PAIR)
    (tmp_path / ".next.pem.new").write_bytes(b"half")
    assert IdentityStore(tmp_path).read_next() == PAIR
    store.keep_next(PAIR + b"\n")
    assert store.read_next() == PAIR + b"\n"


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="set state_dir to a folder"):
        IdentityStore(tmp_path / "file" / "identity")


def test_the_agent_loads_no_cryptography_before_it_needs_it() -> None:
    """It costs memory on every host, and most of an agent's life nobody asks for a certificate."""
    code = (
        "import sys, agent.identity.keeper, agent.identity.store;"
        "sys.exit('cryptography' in sys.modules)"
    )
    folder = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=folder, check=False).returncode == 0


def test_what_is_kept_survives_a_power_cut(tmp_path: Path) -> None:
    disk = LossyDisk()
    store = IdentityStore(tmp_path, disk)
    store.keep_next(b"old")
    store.adopt()
    store.keep_key(b"key")
    store.keep_next(b"new")
    for left in disk.after_power_cut():
        kept = IdentityStore(tmp_path, left)
        assert (kept.read_current(), kept.read_key(), kept.read_next()) == (b"old", b"key", b"new")
    store.adopt()
    for left in disk.after_power_cut():
        assert IdentityStore(tmp_path, left).read_current() == b"new"
