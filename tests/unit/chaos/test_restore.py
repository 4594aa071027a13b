"""A restore of etcd in the simulated day: what the observer makes of it, and what is judged."""

from datetime import timedelta

import pytest
from chaos.restore import EtcdBackups, RestorableObserver, RestorableWatching
from support.clock import FakeClock

from kubenode.api.v1alpha1 import default_policy
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.configmaps import NAMESPACE
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.restore import CHECK_SECONDS, NAME
from simulation.apiserver.store import Store
from simulation.demo.books import PermitView
from simulation.demo.fleet import places
from simulation.demo.hosts import HostAct
from simulation.demo.ledger import Ledger
from simulation.demo.observer import NodeView

NODES = {
    place.name: NodeView(place.labels(), ready=True, unschedulable=False, ours=False)
    for place in places(30)
}


def an_observer() -> RestorableObserver:
    observer = RestorableObserver(default_policy(), Ledger())
    observer.listed(0.0, NODES)
    return observer


def test_what_a_restore_brings_back_is_no_act_and_no_grant_of_ours() -> None:
    observer = an_observer()
    names = list(NODES)[3:23]
    cordoned = {
        **NODES,
        names[0]: NodeView(NODES[names[0]].labels, ready=True, unschedulable=True, ours=True),
    }
    permits = {f"p-{name}": PermitView(name, "Node", True) for name in names}
    observer.restored(10.0, cordoned, {}, permits)
    observer.settle(20.0)
    assert not observer.false_actions
    assert not observer.limit_violations
    assert observer.grants == 0
    assert set(observer.permits) == set(permits)


def test_permits_that_a_restore_brought_back_count_for_the_next_grant() -> None:
    observer = an_observer()
    first, *names = list(NODES)[3:23]
    permits = {f"p-{name}": PermitView(name, "Node", True) for name in names}
    observer.restored(10.0, NODES, {}, permits)
    observer.permit(30.0, "fresh", PermitView(first, "Node", True))
    assert observer.limit_violations


def backups(clock: FakeClock, store: Store, kube: Kube) -> EtcdBackups:
    watching = RestorableWatching(kube, an_observer(), Ledger(), clock, lambda *told: None)
    return EtcdBackups(store, kube, clock, watching, lambda: None, lambda: None)


@pytest.mark.parametrize(
    ("act", "after", "judged"),
    [
        ("reset", CHECK_SECONDS + 1, 1),
        ("off", CHECK_SECONDS + 1, 1),
        ("on", CHECK_SECONDS + 1, 0),
        ("off", CHECK_SECONDS - 1, 0),
    ],
)
async def test_stop_of_a_machine_while_it_is_frozen_is_judged_once_every_operator_has_looked(
    act: str, after: float, judged: int
) -> None:
    clock, store = FakeClock(), Store(1)
    kube = Kube(PlainTransport("http://127.0.0.1:1"))
    watched = backups(clock, store, kube)
    lineage = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": "u"},
        "data": {"frozen": "it went back"},
    }
    store.commit("configmaps", "ADDED", lineage)
    assert await watched.froze_within(0.0)
    clock.step(timedelta(seconds=after))
    watched.host_acted(HostAct(clock.monotonic(), "n", "power", act))
    await kube.close()
    assert len(watched.acts_while_frozen) == judged
