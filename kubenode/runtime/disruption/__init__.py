"""The protocol of every act that deletes, stops, resets, replaces or reboots a machine or host.

Whoever decides such an act (a job, a MachineSet, the collector of orphans, an agent) calls the
provider or the host in `act` of `DisruptionGuard.perform`, and nowhere else. The guard checks, in
this order:

    freeze    nothing happens while acts are frozen, such as after a restore of the cluster's data
    expiry    nothing happens after the time that its decision allows
    intent    the intent is stored in the API server or on the disk, under a request ID
    target    read live: unchanged since the decision, and with the same boot ID
    permit    read from the API server by its name now: granted, for this node, holder and class
    freeze    again, and expiry too, because the reads may have taken long
    fence     this process still leads
    act       then a line in the audit log, with permit and evidence

A failed check raises `ActRefused` with a reason, and that of the fence LeaseLost: the act has not
happened. The caller waits and decides again. After any other error of `act` it is unknown whether
the act happened.

    guard = DisruptionGuard(ApiPermits(kube), fence, clock, audit, frozen, by="machine")
    request = ActRequest(
        DisruptiveAct.DELETE, target=provider_id, node=node, who="Machine m1",
        request=request_id, permit=prepared.permit, holder_uid=uid, evidence="...",
    )
    await guard.perform(
        request,
        intent=record,         # async () -> bool: whether the intent is stored under request_id
        target=read_target,    # async () -> LiveTarget: what has changed, and the boot ID
        act=lambda: provider.delete(provider_id, cluster),
    )
"""
