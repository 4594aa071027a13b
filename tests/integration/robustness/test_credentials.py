"""Our own certificate at the API server ends, and is replaced in its files."""

import asyncio
import shutil
from datetime import timedelta

import pytest
from support.control_plane import ControlPlane
from support.running import following, until

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Unauthorized
from kubenode.runtime.kube.official import connect

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


async def test_an_expired_certificate_acts_no_more_and_its_successor_needs_no_restart(
    control_plane: ControlPlane,
) -> None:
    plane = control_plane
    short = plane.issue_client_cert("expiring", ["system:masters"], timedelta(seconds=15))
    config = plane.write_kubeconfig(plane.folder / "expiring.kubeconfig", short)
    kube = Kube(connect(str(config)))
    try:
        async with following(kube, watch_seconds=5.0) as informer:
            node = {"metadata": {"name": "certified"}}
            made = await kube.create(paths.nodes(), node)
            await informer.wait_for("certified", made["metadata"]["resourceVersion"], 30)
            async with asyncio.timeout(60):
                with pytest.raises(Unauthorized):
                    while True:
                        await kube.patch(paths.node("certified"), {"spec": {}})
                        await asyncio.sleep(0.5)
            await until(lambda: informer.stats.errors > 0, 60, "the watch is refused too")
            assert not informer.fresh(0.1), "a cache that nobody confirms grows old"
            longer = plane.issue_client_cert("expiring", ["system:masters"])
            shutil.copy(longer.cert_file, short.cert_file)
            shutil.copy(longer.key_file, short.key_file)
            cordoned = await kube.patch(paths.node("certified"), {"spec": {"unschedulable": True}})
            await informer.wait_for("certified", cordoned["metadata"]["resourceVersion"], 60)
            assert informer.cache["certified"].spec.unschedulable
            assert informer.stats.lists == 1, "and nothing was missed"
    finally:
        await kube.delete(paths.node("certified"))
        await kube.close()
