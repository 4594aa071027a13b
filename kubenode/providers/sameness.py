"""Check that a provider's machine is the one that a Node runs on.

A Node's providerID is what its kubelet or cloud controller once wrote. Cutting the power of the
wrong machine cannot be undone. So before an act the provider's own name for the machine is compared
with the Node's name, wherever one derives from the other.
"""

import re
from collections.abc import Iterable

_MADE_BY_EC2 = re.compile(r"ip-[0-9]+-[0-9]+-[0-9]+-[0-9]+|i-[0-9a-f]{8,17}")
_MADE_BY_ACK = re.compile(r"[a-z0-9-]+\.(?:([0-9]+(?:\.[0-9]+){3})|(i-[0-9a-z]+))")


def host(name: str) -> str:
    """Return the first label in lower case: a system and its cloud may use different domains."""
    return name.split(".", 1)[0].lower()


def differs(node: str, names: Iterable[str]) -> str:
    """Return what is wrong if none of the provider's names for the machine is the Node's, else "".

    Without any name there is nothing to compare, which is "" as well.
    """
    known = [name for name in names if name]
    if not known or host(node) in {host(name) for name in known}:
        return ""
    return f"the provider calls this machine {' or '.join(known)}, and the Node is {node}"


def differs_on_ec2(node: str, private_dns: str, instance: str) -> str:
    """Compare as `differs` if the Node's name is made by EC2; any other name is accepted."""
    if not _MADE_BY_EC2.fullmatch(host(node)):
        return ""
    return differs(node, (private_dns, instance))


def differs_on_ecs(node: str, hostname: str, instance: str, addresses: Iterable[str]) -> str:
    """Compare as `differs`, also names by Alibaba's Kubernetes (REGION.ADDRESS, REGION.i-…)."""
    made = _MADE_BY_ACK.fullmatch(node.lower())
    if made is None:
        return differs(node, (hostname,)) if hostname else ""
    known = {instance, *addresses}
    if (made[1] or made[2]) in known:
        return ""
    return f"the provider calls this machine {' or '.join(sorted(known))}, and the Node is {node}"
