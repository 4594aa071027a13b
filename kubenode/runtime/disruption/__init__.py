"""The protocol of every act that deletes, stops, resets, replaces or reboots a machine or host.

Who decides such an act (a repair job, a MachineSet, the collector of orphans, an agent) calls the
provider or the host in `act` of `DisruptionGuard.perform`, and nowhere else. In this order:

    freeze    nothing while the cluster's data are being restored from a backup
    expiry    nothing that comes later than its decision allows
    intent    what is to be done stands in the API server or on the disk, under a request ID
    permit    read from the API server by its name now: held, for this node, holder and class
    target    read live: it is what was decided on, with the boot ID that was decided on
    fence     we still lead
    act       then a line in the audit log, with permit and evidence

What is not so is `ActRefused`, with a reason: the caller waits, and decides anew. A refused act has
not happened. Any other error of `act` says nothing of that.

    guard = DisruptionGuard(ApiPermits(kube), fence, clock, audit, frozen, by="machine")
    request = ActRequest(
        DisruptiveAct.DELETE, target=provider_id, node=node, who="Machine m1",
        request=request_id, permit=prepared.permit, holder_uid=uid, evidence="...",
    )
    await guard.perform(
        request,
        intent=record,    # async () -> bool: the intent is stored under request_id
        target=look,      # async () -> LiveTarget: why not, "" for nothing; and its boot ID
        act=lambda: provider.delete(provider_id, cluster),
    )
"""
