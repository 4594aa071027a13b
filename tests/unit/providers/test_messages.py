"""What is told of a provider's answer: one short line without secrets."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.providers.messages import LONGEST, plain, retry_after

SECRET = "wJalrXUtnFEMIbPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f'{{"access_token": "{SECRET}", "x": 1}}',
        f"password={SECRET}&user=a",
        f"https://admin:{SECRET}@10.8.0.1/redfish/v1",
        f"https://sts.amazonaws.com/?X-Amz-Signature={SECRET} failed",
        f"with credential '{SECRET}'; token = {SECRET}",
        f"AccessKeySecret: {SECRET}",
        f"Basic {SECRET}",
    ],
)
def test_what_looks_like_a_secret_is_left_out(text: str) -> None:
    assert SECRET not in plain(text)


def test_a_secret_that_is_known_is_left_out_wherever_it_stands() -> None:
    assert plain("it said calvin twice: calvin", "calvin") == "it said … twice: …"


def test_words_without_secrets_stay() -> None:
    told = "IncorrectInstanceState: The instance 'i-0123456789abcdef0' is not in a state"
    assert plain(told) == told


@given(st.text(max_size=2000))
def test_it_is_one_short_line(text: str) -> None:
    told = plain(text)
    assert len(told) <= LONGEST + 1 and len(told.splitlines()) <= 1


@pytest.mark.parametrize(
    ("value", "after"),
    [
        ("5", timedelta(seconds=5)),
        ("999999", timedelta(hours=1)),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("-1", None),
        ("", None),
        (None, None),
    ],
)
def test_when_to_come_again_is_read_in_seconds_and_bounded(
    value: str | None, after: timedelta | None
) -> None:
    assert retry_after(value) == after
