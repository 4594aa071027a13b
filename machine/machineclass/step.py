"""What is said of a MachineClass: its hash, and whether machines can be made. Pure."""

import hashlib
import json
from collections.abc import Sequence

from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1.machineclass import MachineClassSpec
from machine.bootstrap.agentready import ConditionUpdate

HASH_VERSION = 1
DIGITS = 10
MOST_TOLD = 8


def class_hash(spec: MachineClassSpec) -> str:
    """Of what a machine is made from; what only says how it is made may change without it."""
    made_from = {
        "provider": spec.provider.value,
        "failureDomain": spec.failure_domain,
        "config": spec.config,
        "userDataRef": spec.user_data_ref,
    }
    text = json.dumps(made_from, sort_keys=True, separators=(",", ":"))
    return f"{HASH_VERSION}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


def ready(problems: Sequence[str], refused: str) -> ConditionUpdate:
    """problems: what is wrong with the config; refused: why the provider lets us not in, or "".

    A provider that cannot be reached says nothing of the class.
    """
    if problems:
        return ConditionUpdate(
            ConditionStatus.FALSE, "ConfigInvalid", "; ".join(problems[:MOST_TOLD])
        )
    if refused:
        return ConditionUpdate(ConditionStatus.FALSE, "CredentialsInvalid", refused)
    return ConditionUpdate(ConditionStatus.TRUE, "Valid", "machines can be made")
