"""Where a BMC is, and that nothing elsewhere is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.providers.redfish.bmc import BadBmc, Bmc, inside, parse


@pytest.mark.parametrize(
    ("text", "bmc"),
    [
        ("10.8.0.7", Bmc("https://10.8.0.7", "10.8.0.7")),
        ("node7.bmc.example.com:8443", Bmc("https://node7.bmc.example.com:8443",
                                           "node7.bmc.example.com")),
        ("https://[fd00::7]/", Bmc("https://[fd00::7]", "fd00::7")),
        ("https://10.8.0.7/redfish/v1/Systems/437XR1138R2/",
         Bmc("https://10.8.0.7", "10.8.0.7", "/redfish/v1/Systems/437XR1138R2")),
        ("10.8.0.7/redfish/v1/Systems/System.Embedded.1",
         Bmc("https://10.8.0.7", "10.8.0.7", "/redfish/v1/Systems/System.Embedded.1")),
    ],
)  # fmt: skip
def test_addresses_are_read(text: str, bmc: Bmc) -> None:
    assert parse(text) == bmc


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://10.8.0.7",
        "ftp://10.8.0.7",
        "https://user:pass@10.8.0.7",
        "https://10.8.0.7:99999",
        "https://10.8.0.7/redfish/v1/Systems/../../secret",
        "https://10.8.0.7/redfish/v1/Systems/..",
        "https://10.8.0.7/redfish/v1/Systems/1?x=1",
        "https://10.8.0.7/redfish/v1/Systems/1#x",
        "https://10.8.0.7/anything",
        "10.8.0.7 evil.example",
        "https://ex ample/",
    ],
)
def test_what_is_no_address_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(BadBmc) as told:
        parse(text)
    assert repr(text) in str(told.value)


@given(st.text(max_size=60))
def test_any_text_is_an_https_address_or_refused(text: str) -> None:
    try:
        bmc = parse(text)
    except BadBmc:
        return
    assert bmc.url.startswith("https://") and bmc.host in bmc.url and "@" not in bmc.url


@pytest.mark.parametrize(
    ("host", "there"),
    [
        ("10.8.3.4", True),
        ("10.9.0.1", False),
        ("fd00::7", True),
        ("node7.bmc.example.com", True),
        ("bmc.example.com", True),
        ("evilbmc.example.com", False),
        ("bmc.example.com.evil.example", False),
        ("0x0a080304", False),
        ("10.8", False),
    ],
)
def test_only_listed_networks_and_domains_are_called(host: str, there: bool) -> None:
    assert inside(host, ["10.8.0.0/16", "fd00::/8", "bmc.example.com"]) is there
