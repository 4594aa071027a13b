"""Compute the hash of a MachineClass, and whether Machines can be made of it. Pure."""

import hashlib
import json
from collections.abc import Sequence

from kubenode.api.conditions import ConditionUpdate
from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1.machineclass import MachineClassSpec

HASH_VERSION = 1
DIGITS = 10
MOST_NAMED = 8


def class_hash(spec: MachineClassSpec) -> str:
    """Return the hash of the fields from which an instance is made.

    Fields that only control how it is made may change without another hash.
    """
    made_from = {
        "provider": spec.provider.value,
        "failureDomain": spec.failure_domain,
        "config": spec.config,
        "userDataRef": spec.user_data_ref,
    }
    text = json.dumps(made_from, sort_keys=True, separators=(",", ":"))
    return f"{HASH_VERSION}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


def ready(problems: Sequence[str], refused: str) -> ConditionUpdate:
    """Return condition Ready. An unreachable provider does not change it.

    problems: errors in the config.
    refused: why the provider rejects the credentials, "" if it does not.
    """
    if problems:
        return ConditionUpdate(
            ConditionStatus.FALSE, "ConfigInvalid", "; ".join(problems[:MOST_NAMED])
        )
    if refused:
        return ConditionUpdate(ConditionStatus.FALSE, "CredentialsInvalid", refused)
    return ConditionUpdate(ConditionStatus.TRUE, "Valid", "machines can be made")
