"""The contract of TokenReviewer: what is cached, for how long, and that doubt verifies nobody."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from support.clock import FakeClock

from kubenode.runtime.kube.client import Kube, as_dict
from kubenode.runtime.kube.errors import Forbidden, ServerUnreachable
from kubenode.runtime.kube.reviews import (
    BURST,
    LONGEST_TOKEN,
    TOKENS,
    ReviewClient,
    ReviewedUser,
    TokenReviewer,
    Unverified,
)
from kubenode.runtime.responses import ResponseCache

NOWHERE: Any = None
GOOD = {"username": "ann", "uid": "u1", "groups": ["people"], "extra": {"pod": ["a", "b"]}}


class ReviewServer(Kube):
    """Answers TokenReviews: the token "good" is Ann's. `status` and `fails` are levers."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(NOWHERE, clock=clock)
        self.status: dict[str, Any] = {}
        self.fails: Exception | None = None
        self.specs: list[dict[str, Any]] = []

    async def create(
        self, path: str, body: Any, decode: Callable[[bytes], Any] = as_dict, query: Any = None
    ) -> Any:
        assert (path, body["kind"]) == (TOKENS, "TokenReview")
        self.specs.append(body["spec"])
        await asyncio.sleep(0)
        if self.fails is not None:
            raise self.fails
        good = body["spec"]["token"] == "good"
        status = {"authenticated": good, "user": GOOD if good else {}, **self.status}
        return decode(json.dumps({"status": status}).encode())


def a_reviewer(
    *, audience: str = "", seconds: float = 10.0, most: int = 8
) -> tuple[TokenReviewer, ReviewServer, FakeClock]:
    clock = FakeClock()
    server = ReviewServer(clock)
    client = ReviewClient(server, clock)
    reviewer = TokenReviewer(client, clock, audience=audience, seconds=seconds, most=most)
    return reviewer, server, clock


async def test_token_resolves_to_the_user_that_the_server_names() -> None:
    reviewer, server, _ = a_reviewer()
    expected = ReviewedUser("ann", "u1", ["people"], {"pod": ["a", "b"]})
    assert await reviewer.user("good") == expected
    assert server.specs == [{"token": "good"}]


@pytest.mark.parametrize("token", ["bad", "go\udcffod"])
async def test_unknown_token_has_no_user_and_is_cached(token: str) -> None:
    reviewer, server, _ = a_reviewer()
    for _ in range(2):
        assert await reviewer.user(token) is None
    assert len(server.specs) == 1


@pytest.mark.parametrize("token", ["", "x" * (LONGEST_TOKEN + 1)])
async def test_empty_and_oversized_tokens_are_not_sent(token: str) -> None:
    reviewer, server, _ = a_reviewer()
    assert await reviewer.user(token) is None
    assert server.specs == []


@pytest.mark.parametrize("user", [{}, {"username": ""}])
async def test_user_without_a_name_is_no_user(user: dict[str, Any]) -> None:
    reviewer, server, _ = a_reviewer()
    server.status = {"user": user}
    assert await reviewer.user("good") is None


@pytest.mark.parametrize(
    ("audiences", "accepted"), [(None, False), (["other"], False), (["other", "ours"], True)]
)
async def test_required_audience_must_be_confirmed(
    audiences: list[str] | None, accepted: bool
) -> None:
    reviewer, server, _ = a_reviewer(audience="ours")
    server.status = {"audiences": audiences}
    assert (await reviewer.user("good") is not None) is accepted
    assert server.specs == [{"token": "good", "audiences": ["ours"]}]


@pytest.mark.parametrize("seconds", [10.0, 60.0])
async def test_answer_is_valid_for_the_given_seconds(seconds: float) -> None:
    reviewer, server, clock = a_reviewer(seconds=seconds)
    assert await reviewer.user("good") is not None
    server.status = {"authenticated": False}
    clock.step(timedelta(seconds=seconds - 1))
    assert await reviewer.user("good") is not None
    clock.step(timedelta(seconds=1))
    assert await reviewer.user("good") is None


async def test_concurrent_requests_for_a_token_share_one_review() -> None:
    reviewer, server, _ = a_reviewer()
    users = await asyncio.gather(*(reviewer.user("good") for _ in range(20)))
    assert all(user is not None for user in users)
    assert len(server.specs) == 1


@pytest.mark.parametrize("error", [ServerUnreachable("away"), Forbidden(403, "Forbidden")])
async def test_failed_review_verifies_nobody_and_is_repeated(error: Exception) -> None:
    reviewer, server, _ = a_reviewer()
    server.fails = error
    with pytest.raises(Unverified, match="did not answer the TokenReview"):
        await reviewer.user("good")
    server.fails = None
    assert await reviewer.user("good") is not None


async def test_rate_of_reviews_is_bounded() -> None:
    reviewer, server, clock = a_reviewer()
    for number in range(int(BURST)):
        assert await reviewer.user(f"bad{number}") is None
    with pytest.raises(Unverified, match="too many"):
        await reviewer.user("one more")
    assert len(server.specs) == BURST
    clock.step(timedelta(seconds=1))
    assert await reviewer.user("one more") is None


async def test_cached_answers_are_bounded_and_contain_no_token() -> None:
    reviewer, _, _ = a_reviewer(most=3)
    for token in ("good", "bad1", "bad2", "bad3"):
        await reviewer.user(token)
    assert len(reviewer._users) == 3
    await reviewer.user("good")
    assert "good" not in repr(reviewer._users._known)


async def test_cache_drops_the_oldest_response_first() -> None:
    cache: ResponseCache[int, int] = ResponseCache(FakeClock(), seconds=10, most=2)
    asked: list[int] = []

    async def answer() -> int:
        asked.append(1)
        return len(asked)

    first = [await cache.get(key, answer) for key in (1, 2, 3)]
    assert first == [1, 2, 3]
    assert [await cache.get(key, answer) for key in (2, 3, 1)] == [2, 3, 4]
