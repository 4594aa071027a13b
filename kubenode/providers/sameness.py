"""Whether a machine of the provider is the one that a Node runs on.

The ID of a Node is what its kubelet or cloud controller once wrote. Before anything is switched off
the provider's own word for the machine is held against the Node's name, wherever the two are made
from one another: cutting the power of the wrong machine cannot be taken back.
"""

import re
from collections.abc import Iterable

_MADE_BY_EC2 = re.compile(r"ip-[0-9]+-[0-9]+-[0-9]+-[0-9]+|i-[0-9a-f]{8,17}")
_MADE_BY_ACK = re.compile(r"[a-z0-9-]+\.(?:([0-9]+(?:\.[0-9]+){3})|(i-[0-9a-z]+))")


def host(name: str) -> str:
    """The first label in lower case: domains differ between a system and its cloud."""
    return name.split(".", 1)[0].lower()


def differs(node: str, names: Iterable[str]) -> str:
    """What is wrong if none of the names that the provider has for it is the Node's; "" is fine.

    No name at all says nothing, and is fine.
    """
    known = [name for name in names if name]
    if not known or host(node) in {host(name) for name in known}:
        return ""
    return f"the provider calls this machine {' or '.join(known)}, and the Node is {node}"


def differs_on_ec2(node: str, private_dns: str, instance: str) -> str:
    """As `differs`, for Nodes named by EC2; people may give any other name."""
    if not _MADE_BY_EC2.fullmatch(host(node)):
        return ""
    return differs(node, (private_dns, instance))


def differs_on_ecs(node: str, hostname: str, instance: str, addresses: Iterable[str]) -> str:
    """As `differs`, for Nodes named by Alibaba's Kubernetes (REGION.ADDRESS, REGION.i-…)."""
    made = _MADE_BY_ACK.fullmatch(node.lower())
    if made is None:
        return differs(node, (hostname,)) if hostname else ""
    known = {instance, *addresses}
    if (made[1] or made[2]) in known:
        return ""
    return f"the provider calls this machine {' or '.join(sorted(known))}, and the Node is {node}"
