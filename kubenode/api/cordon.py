"""A person's sign on a Node that its cordon stays when ours ends.

`kubectl cordon` on a node that we cordoned changes nothing, so it cannot be that sign.
"""

from collections.abc import Mapping

KEEP_CORDONED = "kubenode.io/keep-cordoned"
"""Annotation on a Node. Any value but "false" counts; a reason is a good one."""


def keeps_cordon(annotations: Mapping[str, str]) -> bool:
    value = annotations.get(KEEP_CORDONED)
    return value is not None and value.strip().lower() != "false"
