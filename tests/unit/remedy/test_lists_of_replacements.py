"""Jobs that wait for a new machine share one list of other controllers' objects (finding F17)."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0, FakeClock

from kubenode.runtime.kube.client import JSON, Kube, as_dict
from kubenode.runtime.kube.errors import NotFound
from remedy.power.clusterapi import ClusterApi
from remedy.power.karpenter import Karpenter
from remedy.power.methods import RECENT_SECONDS, ObjectReplacement, ReplacementRequest

NOWHERE: Any = None
JOBS = 50


class Listing(Kube):
    """An API of other controllers: their group, and lists of ten thousand that are counted."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(NOWHERE, clock=clock)
        self.asked: Counter[str] = Counter()

    async def call(
        self,
        method: str,
        path: str,
        query: Any = None,
        body: Any = None,
        content_type: str = JSON,
        decode: Callable[[bytes], Any] = as_dict,
        timeout: float | None = None,  # noqa: ASYNC109  as Kube's
        attempts: int | None = None,
    ) -> Any:
        if path.count("/") == 2:
            return {"preferredVersion": {"version": "v1"}}
        if not path.endswith(("/machines", "/nodeclaims")):
            raise NotFound(404, "NotFound", path)
        self.asked[path] += 1
        return decode(json.dumps({"metadata": {"resourceVersion": "1"}, "items": []}).encode())


class NoNodes:
    def get(self, name: str) -> None:
        return None


@pytest.mark.parametrize(
    ("way", "target"), [(ClusterApi, "default/m{0}/u{0}"), (Karpenter, "claim-{0}/u{0}")]
)
async def test_jobs_that_wait_for_a_new_machine_share_one_list(
    way: type[ObjectReplacement], target: str
) -> None:
    clock = FakeClock()
    api = Listing(clock)
    path: Any = way(api, NoNodes())  # type: ignore[arg-type]

    async def all_look() -> None:
        for n in range(JOBS):
            asked = ReplacementRequest(
                f"n{n}", f"uid-{n}", target.format(n), "Set a", T0, f"request-{n}"
            )
            assert (await path.far(asked)).gone

    await all_look()
    assert sum(api.asked.values()) == 1
    clock.step(timedelta(seconds=RECENT_SECONDS))
    await all_look()
    assert sum(api.asked.values()) == 2
