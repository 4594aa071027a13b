"""Who is let in, how often one may try, and what cookies and forms prove."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response
from support.clock import FakeClock
from support.dashboard_running import DECIDES, PAUSES, READS, ROLLS, KnownPeople

from defender.dashboard.rights import Rights, rights_of
from kubenode.runtime.kube.identity import Identity
from kubenode.runtime.process import CannotStart
from kubenode.runtime.site.attempts import LoginAttempts
from kubenode.runtime.site.browser import from_here, inner_path
from kubenode.runtime.site.people import Person, Proxy, Via
from kubenode.runtime.site.seals import CookieTooLong, Seal, seal_from
from kubenode.runtime.site.signouts import SignOuts
from kubenode.runtime.site.visitors import SiteCookies, VisitorAuthenticator

COOKIE = SiteCookies().login
NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
GATE = KnownPeople(
    {"secret-of-ada": "ada", "secret-of-bob": "bob"},
    {"ada": {READS, PAUSES, DECIDES, ROLLS}, "bob": {READS}, "oidc:eve": {READS}},
)


def request(
    client: str = "192.0.2.7",
    cookies: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Request:
    """Names of headers have underscores for dashes."""
    given = {name.replace("_", "-").lower(): v for name, v in (headers or {}).items()}
    if cookies:
        given["cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": (client, 4711),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    return Request(scope)


def doors(proxy: Proxy | None = None, link: str = "") -> VisitorAuthenticator[Rights]:
    clock = FakeClock()
    return VisitorAuthenticator(
        GATE, Seal(b"k" * 32), clock, proxy or Proxy(), SignOuts(None, clock), rights_of, link
    )


def cookie_of(response: Response) -> str:
    line = next(v for k, v in response.raw_headers if k == b"set-cookie").decode()
    return line.split(";")[0].partition("=")[2]


# -- cookies


def test_what_was_sealed_is_read_again_until_it_is_over() -> None:
    seal = Seal()
    text = seal.close("a", {"x": 1}, LATER)
    assert seal.open("a", text, NOW) == {"x": 1}
    assert seal.open("a", text, LATER) is None
    assert seal.open("b", text, NOW) is None, "a cookie of another purpose"
    assert Seal().open("a", text, NOW) is None, "another program's"


@given(st.data())
def test_a_cookie_that_was_changed_anywhere_is_nobodys(data: st.DataObject) -> None:
    seal = Seal(b"k" * 32)
    text = seal.close("a", {"x": 1}, LATER)
    # What is drawn may not hang on the sealed text: its nonce is new at every run.
    at = data.draw(st.integers(0, 10_000)) % len(text)
    others = [c for c in "AZaz09-_=!\x00é" if c != text[at]]
    other = others[data.draw(st.integers(0, 10_000)) % len(others)]
    changed = text[:at] + other + text[at + 1 :]
    # The last character of base64 has bits that mean nothing.
    assert at == len(text) - 1 or seal.open("a", changed, NOW) in (None, {"x": 1})
    if at < len(text) - 4:
        assert seal.open("a", changed, NOW) is None


@given(st.text(max_size=200))
def test_whatever_is_shown_as_a_cookie_is_no_error(text: str) -> None:
    assert Seal(b"k" * 32).open("a", text, NOW) is None


def test_what_no_cookie_holds_is_said_to_be_too_long() -> None:
    import random

    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=9000))
    with pytest.raises(CookieTooLong):
        Seal().close("a", {"token": noise}, LATER)


def test_replicas_with_one_key_read_each_others_cookies(tmp_path: Any) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"x" * 40)
    text = seal_from(file).close("a", {}, LATER)
    assert seal_from(file).open("a", text, NOW) == {}
    file.write_bytes(b"short")
    with pytest.raises(CannotStart, match="fewer than 32"):
        seal_from(file)
    with pytest.raises(CannotStart, match="cannot be read"):
        seal_from(tmp_path / "none")


# -- coming in


async def test_a_token_lets_in_whose_it_is_and_the_cookie_after_it() -> None:
    entry = doors()
    person = await entry.with_token("secret-of-ada")
    assert person is not None and person.name == "ada"
    response = Response()
    entry.remember(response, person, secure=True)
    visit = await entry.visit(request(cookies={COOKIE: cookie_of(response)}))
    assert visit is not None and visit.person == person
    assert visit.rights == Rights(True, True, True, True)
    assert "secret-of-ada" not in repr(visit)
    header = dict(response.raw_headers)[b"set-cookie"].decode().lower()
    assert "httponly" in header and "samesite=strict" in header and "secure" in header


async def test_nobody_is_let_in_by_a_wrong_token_or_none() -> None:
    for token in ("", "wrong"):
        assert await doors().with_token(token) is None
    assert await doors().visit(request()) is None
    assert doors().with_link("") is None, "no link lets nobody in by an empty one"
    assert doors(link="abc").with_link("abd") is None


async def test_a_token_that_is_withdrawn_ends_the_visit() -> None:
    entry = doors()
    person = await entry.with_token("secret-of-bob")
    assert person is not None
    response = Response()
    entry.remember(response, person, secure=False)
    del GATE.tokens["secret-of-bob"]
    try:
        assert await entry.visit(request(cookies={COOKIE: cookie_of(response)})) is None
    finally:
        GATE.tokens["secret-of-bob"] = "bob"


async def test_a_cookie_that_logged_out_opens_nothing_wherever_it_is_kept() -> None:
    entry = doors(link="way-in")
    person = entry.with_link("way-in")
    assert person is not None
    response = Response()
    entry.remember(response, person, secure=False)
    kept = {COOKIE: cookie_of(response)}
    visit = await entry.visit(request(cookies=kept))
    assert visit is not None
    entry.forget(Response(), visit.session, secure=False)
    assert await entry.visit(request(cookies=kept)) is None


async def test_a_link_of_another_program_is_worth_nothing_here() -> None:
    response = Response()
    old = doors(link="old")
    person = old.with_link("old")
    assert person is not None
    old.remember(response, person, secure=False)
    assert await doors(link="new").visit(request(cookies={COOKIE: cookie_of(response)})) is None


PROXY = Proxy(
    "X-User",
    "X-Groups",
    within=(ip_network("10.0.0.0/24"),),
    secret="between-us",
    prefix="oidc:",
)


async def test_a_proxy_that_is_trusted_says_who_it_is() -> None:
    entry = doors(PROXY)
    said = {"X_User": "eve", "X_Groups": "dev, system:masters", "X_Proxy_Secret": "between-us"}
    visit = await entry.visit(request("10.0.0.9", headers=said))
    assert visit is not None
    assert visit.person.identity == Identity("oidc:eve", ("oidc:dev", "system:authenticated"))
    assert visit.person.via is Via.PROXY
    assert visit.rights == Rights(read=True)
    assert visit.fresh, "it is given a cookie, so that its forms can be known"


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        ("192.0.2.7", {"X_User": "eve", "X_Proxy_Secret": "between-us"}),
        ("10.0.0.9", {"X_User": "eve"}),
        ("10.0.0.9", {"X_User": "eve", "X_Proxy_Secret": "wrong"}),
        ("10.0.0.9", {"X_User": "", "X_Proxy_Secret": "between-us"}),
        ("10.0.0.9", {"X_User": "system:admin", "X_Proxy_Secret": "between-us"}),
        ("no-address", {"X_User": "eve", "X_Proxy_Secret": "between-us"}),
    ],
)
async def test_a_header_of_somebody_else_names_nobody(client: str, headers: dict[str, str]) -> None:
    assert await doors(PROXY).visit(request(client, headers=headers)) is None


async def test_another_persons_cookie_is_not_that_of_whom_the_proxy_names() -> None:
    entry = doors(PROXY)
    said = {"X_Proxy_Secret": "between-us"}
    first = await entry.visit(request("10.0.0.9", headers={"X_User": "eve"} | said))
    assert first is not None
    response = Response()
    entry.remember(response, first.person, secure=True, session=first.session)
    kept = {COOKIE: cookie_of(response)}
    same = await entry.visit(request("10.0.0.9", kept, {"X_User": "eve"} | said))
    other = await entry.visit(request("10.0.0.9", kept, {"X_User": "mallory"} | said))
    assert same is not None and same.session == first.session and not same.fresh
    assert other is not None and other.session != first.session


def test_what_a_proxy_says_of_the_way_here_counts_only_from_a_proxy() -> None:
    entry = doors(PROXY)
    said = {"X_Forwarded_Proto": "https", "X_Forwarded_For": "6.6.6.6, 198.51.100.4"}
    assert entry.secure(request("10.0.0.9", headers=said))
    assert entry.address(request("10.0.0.9", headers=said)) == "198.51.100.4"
    assert not entry.secure(request("192.0.2.7", headers=said))
    assert entry.address(request("192.0.2.7", headers=said)) == "192.0.2.7"


async def test_rights_are_what_the_gate_says_each_on_its_own() -> None:
    bob = Person(Identity("bob"), Via.TOKEN, "t")
    assert await rights_of(bob, GATE) == Rights(read=True, pause=False, decide=False, roll=False)
    nobody = Person(Identity("nobody"), Via.TOKEN, "t")
    assert await rights_of(nobody, GATE) == Rights()


# -- forms and attempts


def test_a_forms_token_is_good_for_its_session_alone() -> None:
    entry = doors()
    token = entry.form_token("one")
    assert entry.form_token_fits("one", token)
    assert not entry.form_token_fits("two", token)
    assert not entry.form_token_fits("one", "")
    assert not entry.form_token_fits("", entry.form_token(""))


@pytest.mark.parametrize(
    ("headers", "fine"),
    [
        ({}, True),
        ({"Host": "d", "Origin": "https://d"}, True),
        ({"Host": "d", "Origin": "https://evil"}, False),
        ({"Host": "d", "Origin": "null"}, False),
        ({"Sec_Fetch_Site": "same-origin"}, True),
        ({"Sec_Fetch_Site": "cross-site"}, False),
        ({"Sec_Fetch_Site": "same-site"}, False),
    ],
)
def test_a_post_from_elsewhere_is_known_by_what_the_browser_says(
    headers: dict[str, str], fine: bool
) -> None:
    assert from_here(request(headers=headers)) is fine


@given(st.text(max_size=60))
def test_after_a_login_one_stays_on_this_dashboard(to: str) -> None:
    where = inner_path(to)
    assert where.startswith("/") and not where.startswith("//")
    assert "\\" not in where and "\n" not in where


@pytest.mark.parametrize("to", ["//evil", "https://evil", "/\\evil", "\\evil", "/a\nb", "", "evil"])
def test_another_place_is_not_gone_to_after_a_login(to: str) -> None:
    assert inner_path(to) == "/"


def test_attempts_are_few_and_come_back_with_time() -> None:
    attempts = LoginAttempts(burst=3, every=10)
    for _ in range(3):
        assert attempts.wait("a", 100) == 0
        attempts.failed("a", 100)
    assert attempts.wait("a", 100) == 10
    assert attempts.wait("b", 100) == 0, "others may try"
    assert attempts.wait("a", 104) == pytest.approx(6)
    assert attempts.wait("a", 110) == 0


def test_many_addresses_together_have_a_bound_too_and_are_forgotten() -> None:
    attempts = LoginAttempts(burst=5, every=10, together=20, all_every=0.5, addresses=8)
    for number in range(20):
        attempts.failed(f"a{number}", 100)
    assert attempts.wait("fresh", 100) == 0.5
    assert len(attempts._by) == 8


def test_ten_addresses_that_go_on_failing_lock_nobody_else_out() -> None:
    attempts, wanted = LoginAttempts(), [f"bad-{number}" for number in range(10)]
    waits = []
    for second in range(600):
        for address in wanted:
            if attempts.wait(address, second) == 0:
                attempts.failed(address, second)
        waits.append(attempts.wait("honest", second))
    assert max(waits) <= 0.2
