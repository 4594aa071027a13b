"""Two webhook configurations of one server: both trust it, whatever dies in between."""

import base64
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from support.clock import FakeClock
from support.tls_world import Died, TlsWorld

from kubenode.runtime.kube.client import MERGE_PATCH, as_dict
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.keeper import MUTATING, VALIDATING, CertificateKeeper
from kubenode.runtime.tls.rotation import CertificateLifetimes, trusts

LIVES = CertificateLifetimes(
    authority=timedelta(days=30), serving=timedelta(days=7), settle=timedelta(minutes=5)
)


class TwoHooks(TlsWorld):
    """`bundles` by the plural of the configuration; one that is left out is not there."""

    def __init__(self, clock: FakeClock, *kinds: str, **levers: Any) -> None:
        super().__init__(clock, **levers)
        self.bundles: dict[str, str] = dict.fromkeys(kinds, "")

    async def get(
        self, path: str, decode: Callable[[bytes], Any] = as_dict, query: Any = None
    ) -> Any:
        if "/secrets/" in path:
            return await super().get(path, decode, query)
        kind = path.split("/")[-2]
        if kind not in self.bundles:
            raise NotFound(404, "NotFound", path)
        hooks = [{"name": n, "clientConfig": {"caBundle": self.bundles[kind]}} for n in "ab"]
        return {"webhooks": hooks}

    async def patch(
        self,
        path: str,
        body: Any,
        content_type: str = MERGE_PATCH,
        decode: Callable[[bytes], Any] = as_dict,
        query: Any = None,
    ) -> Any:
        if "/secrets/" in path:
            return await super().patch(path, body, content_type, decode, query)
        kind = path.split("/")[-2]
        assert [op["path"] for op in body if op["op"] == "test"] == [
            "/webhooks/0/name",
            "/webhooks/1/name",
        ]
        [text] = {op["value"] for op in body if op["op"] == "add"}
        self._write(lambda: self.bundles.update({kind: text}))


def a_keeper(world: TwoHooks) -> tuple[CertificateKeeper, LiveContext]:
    context = LiveContext()
    keeper = CertificateKeeper(
        world, world.clock, context, namespace="kubenode-system", secret="s",
        hook="kubenode-remedy", names=("hook",), lives=LIVES, kinds=(VALIDATING, MUTATING),
    )  # fmt: skip
    return keeper, context


def all_trust(world: TwoHooks, context: LiveContext) -> bool:
    assert context.pair is not None
    raw = [base64.b64decode(text) for text in world.bundles.values()]
    return all(trusts(bundle, context.pair) for bundle in raw)


async def test_both_configurations_trust_what_is_served() -> None:
    world = TwoHooks(FakeClock(), VALIDATING, MUTATING)
    keeper, context = a_keeper(world)
    await keeper.round()
    await keeper.round()
    assert all_trust(world, context)


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("die_at", [1, 2, 3])
async def test_a_keeper_that_dies_between_the_two_is_followed_by_one_that_mends(
    die_at: int, applied: bool
) -> None:
    world = TwoHooks(FakeClock(), VALIDATING, MUTATING, die_at=die_at, applied=applied)
    with pytest.raises(Died):
        for _ in range(3):
            await a_keeper(world)[0].round()
    keeper, context = a_keeper(world)
    await keeper.round()
    await keeper.round()
    assert all_trust(world, context)


@pytest.mark.parametrize("there", [VALIDATING, MUTATING])
async def test_one_that_is_not_applied_is_told_and_the_other_is_kept(
    there: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = TwoHooks(FakeClock(), there)
    keeper, context = a_keeper(world)
    for _ in range(3):
        await keeper.round()
    assert all_trust(world, context)
    [why] = [r.__dict__["why"] for r in caplog.records if r.levelname == "WARNING"]
    assert "WebhookConfiguration kubenode-remedy" in why and "apply charts" in why
