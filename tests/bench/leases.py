"""What it costs to follow the Leases of a large fleet: processor time per renewal, and the memory.

The lines are those of a real watch; they go through the informer and the ages as in the operator,
without a network. 10,000 nodes renew 1,000 Leases a second, and as many agents renew theirs, which
tell the boot of their hosts besides.
"""

import argparse
import gc
import time
import tracemalloc
from datetime import timedelta
from typing import Any

from support.clock import T0, FakeClock
from support.remedy_facts import a_rule

from kubenode.runtime.kube.informer import Informer
from remedy.remedier.boots import Boots
from remedy.remedier.leases import LeaseAges, Renewal, decode_renewal

LINE = (
    '{{"type":"MODIFIED","object":{{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":'
    '{{"name":"{name}","namespace":"kube-node-lease","uid":"0f5b5a3e-5b1e-4b0e-9f4e-{n:012d}",'
    '"resourceVersion":"{version}","creationTimestamp":"2026-01-01T00:00:00Z",{annotations}"ownerReferences":'
    '[{{"apiVersion":"v1","kind":"Node","name":"{name}","uid":"1f5b5a3e-5b1e-4b0e-9f4e-{n:012d}"}}],'
    '"managedFields":[{{"manager":"kubelet","operation":"Update","apiVersion":'
    '"coordination.k8s.io/v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":'
    '{{"f:metadata":{{"f:ownerReferences":{{".":{{}},"k:{{\\"uid\\":\\"1f5b5a3e\\"}}":{{}}}}}},'
    '"f:spec":{{"f:holderIdentity":{{}},"f:leaseDurationSeconds":{{}},"f:renewTime":{{}}}}}}}}]}},'
    '"spec":{{"holderIdentity":"{name}","leaseDurationSeconds":40,'
    '"renewTime":"2026-01-01T00:00:{at:09.6f}Z"}}}}}}\n'
)
BOOT = '"annotations":{{"kubenode.io/boot-id":"2f5b5a3e-5b1e-4b0e-9f4e-{n:012d}"}},'
RULE: dict[str, Any] = {"fact": {"name": "node.leaseAge", "above": 15}}
ROUNDS = 6


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--leases", type=int, default=10_000, metavar="N")


def figures(arguments: argparse.Namespace) -> dict[str, Any]:
    count: int = arguments.leases
    return {"leases": count, "kubelets": _measured(count, ""), "agents": _measured(count, BOOT)}


def _measured(count: int, annotations: str) -> dict[str, Any]:
    clock, nobody = FakeClock(T0), None
    informer: Informer[Renewal] = Informer(
        nobody,  # type: ignore[arg-type]
        "/apis/coordination.k8s.io/v1/leases",
        decode_renewal,
        clock=clock,
    )
    woken: list[str] = []
    ages = LeaseAges(informer, clock, woken.append)
    ages.rules_loaded([a_rule("hung", when=RULE)])
    informer.add_handler(ages.changed)
    if annotations:
        informer.add_handler(Boots(informer, clock).changed)
    gc.collect()
    tracemalloc.start()
    _renewals(informer, ages, clock, count, 0, annotations)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    took = [_renewals(informer, ages, clock, count, n, annotations) for n in range(1, ROUNDS)]
    per_lease = min(sum(times) for times in took) / count
    return {
        "cpu_us_per_renewal": round(per_lease * 1e6, 2),
        "of_which_wheel_us": round(min(wheel for _, wheel in took) / count * 1e6, 3),
        "share_of_a_core_at_one_per_10_s": round(per_lease * count / 10, 4),
        "bytes_per_lease": round(held / count),
        "woken": len(woken),
    }


def _renewals(
    informer: Informer[Renewal],
    ages: LeaseAges,
    clock: FakeClock,
    count: int,
    turn: int,
    annotations: str,
) -> tuple[float, float]:
    """Ten seconds in which all are renewed once: processor seconds, and those of the wheel."""
    lines = [
        LINE.format(
            name=f"node-{n:05d}",
            n=n,
            version=turn * count + n + 1,
            at=turn % 6 * 10,
            annotations=annotations.format(n=n),
        ).encode()
        for n in range(count)
    ]
    renewing = turning = 0.0
    for second in range(10):
        clock.step(timedelta(seconds=1))
        part = lines[second * count // 10 : (second + 1) * count // 10]
        began = time.process_time()
        for line in part:
            informer._event(line)
        told = time.process_time()
        ages.turn()
        renewing, turning = renewing + told - began, turning + time.process_time() - told
    return renewing, turning
