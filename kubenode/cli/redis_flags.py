"""Connects Kube Defender to the Redis that the settings name. Wrong settings fail at the start."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from kubenode.cli.exits import Refusal
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError

if TYPE_CHECKING:
    from defender.replicas.charge.assembly import Shares


class RedisFlags(Protocol):
    @property
    def redis_url(self) -> str | None: ...
    @property
    def redis_password_file(self) -> str | None: ...
    @property
    def redis_ca_file(self) -> str | None: ...
    @property
    def cluster(self) -> str | None: ...
    @property
    def namespace(self) -> str: ...
    @property
    def no_lease(self) -> bool: ...


@asynccontextmanager
async def sharing(
    flags: RedisFlags, kube: Kube, lease_kube: Kube, clock: Clock
) -> "AsyncIterator[Shares | None]":
    """Yield what replicas share by Redis; None without a Redis. Raises Refusal for wrong settings.

    The program starts even if Redis does not answer.
    """
    if flags.redis_url is None:
        yield None
        return
    from defender.replicas.charge.assembly import shared_by
    from defender.replicas.redis.client import BadUrl, RedisAddress, connect

    if flags.no_lease:
        raise Refusal(
            "--redis-url is for several replicas, which must elect one that keeps the record:"
            " leave out --no-lease"
        )
    try:
        redis = connect(
            RedisAddress(flags.redis_url, flags.redis_password_file, flags.redis_ca_file)
        )
    except BadUrl as error:
        raise Refusal(f"--redis-url: {error}") from error
    try:
        cluster = flags.cluster or await _uid(kube)
        yield shared_by(redis, lease_kube, clock, flags.namespace, cluster)
    finally:
        await redis.aclose()


async def _uid(kube: Kube) -> str:
    """Return the UID of namespace kube-system, which names the cluster. Raises Refusal."""
    try:
        namespace = await kube.get(paths.namespace("kube-system"))
    except KubeError as error:
        raise Refusal(
            f"the uid of namespace kube-system, which names this cluster in Redis, cannot be read:"
            f" {error}; name the cluster with --cluster"
        ) from error
    return str(namespace["metadata"]["uid"])
