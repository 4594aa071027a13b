"""What a certificate request asks for is read from its PEM, and nothing is guessed."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_csr
from hypothesis import given
from hypothesis import strategies as st
from support.machine_requests import a_request, as_pem, signed_by_another

from machine.certificates.requests import NoRequest, claims_an_agent, read
from machine.names import agent_user

NAME = agent_user("sh-113")
HONEST = a_request(NAME)


def test_an_honest_request_is_read_whole() -> None:
    asked = read(HONEST)
    assert (asked.signed, asked.key) == (True, "")
    assert (asked.common_names, asked.organizations) == ((NAME,), ("kubenode:agents",))
    assert not asked.more_names and not asked.san


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"hello",
        HONEST + HONEST,
        HONEST + b"trailing",
        b"leading\n" + HONEST,
        HONEST.replace(b"CERTIFICATE REQUEST", b"CERTIFICATE"),
        HONEST[:80] + HONEST[120:],
        b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
        b" " * 20_000 + HONEST,
    ],
    ids=range(9),
)
def test_what_is_not_one_request_is_refused(pem: bytes) -> None:
    with pytest.raises(NoRequest):
        read(pem)
    assert not claims_an_agent(pem)


@given(st.binary(max_size=400), st.integers(0, len(HONEST)), st.integers(0, 40))
def test_no_bytes_make_it_fail_otherwise(junk: bytes, at: int, cut: int) -> None:
    for pem in (junk, HONEST[:at] + junk[:8] + HONEST[at + cut :]):
        try:
            read(pem)
        except NoRequest:
            continue


VERSION_1 = b"\x02\x01\x00"
"""The first INTEGER of a request's DER."""


@pytest.mark.parametrize("version", [1, 8, 127])
def test_a_request_of_a_version_that_does_not_exist_is_refused(version: int) -> None:
    der = load_pem_x509_csr(HONEST).public_bytes(Encoding.DER)
    with pytest.raises(NoRequest):
        read(as_pem(der.replace(VERSION_1, b"\x02\x01" + bytes([version]), 1)))


@given(st.integers(0, 400), st.integers(0, 255))
def test_no_byte_of_its_der_makes_it_fail_otherwise(at: int, byte: int) -> None:
    der = bytearray(load_pem_x509_csr(HONEST).public_bytes(Encoding.DER))
    der[at % len(der)] = byte
    try:
        read(as_pem(bytes(der)))
    except NoRequest:
        return


def test_a_request_signed_by_another_key_is_told() -> None:
    assert not read(signed_by_another(NAME)).signed


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (rsa.generate_private_key(65537, 1024), "RSA of 1024 bits"),
        (ec.generate_private_key(ec.SECP384R1()), "EC of curve secp384r1"),
        (ec.generate_private_key(ec.SECP256R1()), ""),
        (ed25519.Ed25519PrivateKey.generate(), ""),
        (rsa.generate_private_key(65537, 2048), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_key_is_p256_ed25519_or_long_rsa(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey, why: str
) -> None:
    assert read(a_request(NAME, key=key)).key == why


def test_further_names_are_seen() -> None:
    assert read(a_request(NAME, san="kubernetes")).san
    assert read(a_request(NAME, unit="x")).more_names
    assert read(a_request(NAME, ["a", "b"])).organizations == ("a", "b")


def test_alternative_names_are_told_apart() -> None:
    asked = read(a_request(NAME, san=["n1", "10.2.7.113", "fd00:0::7"]))
    assert (asked.dns, asked.addresses) == (("n1",), ("10.2.7.113", "fd00::7"))
    assert asked.san and not asked.other_names
    mixed = read(a_request(NAME, san=["n1", "root@n1"]))
    assert mixed.other_names and mixed.dns == ("n1",)


def test_who_claims_to_be_an_agent_is_known_by_name_or_group() -> None:
    assert claims_an_agent(HONEST)
    assert claims_an_agent(a_request("ann"))
    assert not claims_an_agent(a_request("ann", ["people"]))
