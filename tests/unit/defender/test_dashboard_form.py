"""What a browser may post to the dashboard: from our own page, and no more than a form has."""

import pytest
from starlette.requests import HTTPConnection, Request
from starlette.types import Message

from kubenode.runtime.site.browser import LONGEST_FORM, WebRefusal, form, from_here

FORM = (b"content-type", b"application/x-www-form-urlencoded")


async def test_a_form_that_is_too_long_is_refused_before_it_is_read_whole() -> None:
    read = 0

    async def receive() -> Message:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"a" * 2**14, "more_body": True}

    with pytest.raises(WebRefusal) as refused:
        await form(Request({"type": "http", "headers": [FORM]}, receive))
    assert refused.value.code == 413
    assert read * 2**14 <= LONGEST_FORM + 2**14


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({"host": "kubenode"}, True),  # an old browser says nothing: the form's token stands
        ({"host": "kubenode", "origin": "https://kubenode"}, True),
        ({"host": "kubenode", "origin": "https://elsewhere"}, False),
        ({"host": "kubenode", "origin": "null"}, False),
        ({"host": "kubenode", "sec-fetch-site": "same-origin"}, True),
        ({"host": "kubenode", "sec-fetch-site": "cross-site"}, False),
        ({"host": "kubenode", "sec-fetch-site": "same-site"}, False),
    ],
)
def test_a_post_from_a_page_of_somebody_else_is_told_apart(
    headers: dict[str, str], ours: bool
) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert from_here(HTTPConnection({"type": "http", "headers": raw})) is ours
