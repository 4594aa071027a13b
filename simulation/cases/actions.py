"""Translates a ladder into the vocabulary of the cases: its actions, and the class of its first
rung.

The actions are IDs of the cases' vocabulary (`restart_kubelet`, `drain`, ...). A step for which the
vocabulary has no action gets an action of its own, which counts as an act.
"""

from collections.abc import Iterator, Mapping, Sequence

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.ladder import Rung, Step
from kubenode.api.v1alpha1.noderemedier import OnGiveUp
from kubenode.api.v1alpha1.steps import AgentAction, AgentStep, NodeKeyStep, OnTimeout, PowerPath
from simulation.cases.form import RepairClass

WAIT_HUMAN = "wait_human"
PASSIVE = frozenset(
    {
        "none",
        "suppress",
        "notify",
        "collect_diagnostics",
        "open_hw_ticket",
        WAIT_HUMAN,
        "label_node",
    }
)
"""Actions that change nothing on a node. Probes do not either."""

_UNITS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("kubelet",), "restart_kubelet"),
    (("containerd", "docker", "cri-docker", "crio", "cri-o"), "restart_runtime"),
    (("chrony", "chronyd", "ntp", "ntpd", "ntpsec", "systemd-timesyncd"), "restart_time_sync"),
    (("nvidia-fabricmanager",), "restart_fabric_manager"),
    (("nvidia-dcgm", "dcgm", "nvidia-hostengine"), "restart_dcgm"),
    (("node-problem-detector",), "restart_npd"),
    (("kube-proxy",), "restart_kube_proxy"),
)
_COMPONENTS = {
    "cni": "restart_cni_pod",
    "ipam": "restart_cni_pod",
    "kube-proxy": "restart_kube_proxy",
    "device-plugin": "restart_device_plugin",
    "node-problem-detector": "restart_npd",
    "dcgm": "restart_dcgm",
    "fabric-manager": "restart_fabric_manager",
}
_CLEANED = {
    "images": "prune_images",
    "imagesInUse": "remove_image",
    "journal": "vacuum_journal",
    "containerLogs": "rotate_container_logs",
    "exitedContainers": "delete_exited_containers",
}
_AGENT = {
    AgentAction.SYNC_TIME: "restart_time_sync",
    AgentAction.RESTART_NETWORK: "reset_nic",
    AgentAction.REMOUNT_FILESYSTEM: "remount_rw",
    AgentAction.LOAD_MODULE: "reload_kernel_module",
    AgentAction.RELOAD_MODULE: "reload_kernel_module",
    AgentAction.SET_SYSCTL: "tune_sysctl",
    AgentAction.DELETE_SANDBOX: "delete_sandbox",
    AgentAction.RESET_GPU: "gpu_reset",
    AgentAction.RENEW_CERTIFICATE: "renew_kubelet_cert",
    AgentAction.RUN_CHECK: "collect_diagnostics",
    AgentAction.KILL_PROCESS: "restart_service",
    AgentAction.RUN_SCRIPT: "run_script",
}
_STEPS: Mapping[str, tuple[str, ...]] = {
    "cordon": ("cordon",),
    "uncordon": ("uncordon",),
    "collect": ("collect_diagnostics",),
    "powerOff": ("power_cycle",),
    "powerOn": (),  # the second half of powerOff
    "powerCycle": ("power_cycle",),
    "fence": ("out_of_service_taint",),
    "replace": ("replace_node",),
    "rollbackComponent": ("rollback_component",),
    "wait": (),
    "waitForEvent": (),
    "waitForApproval": (WAIT_HUMAN,),
    "approveEvent": ("approve_host_event",),
    "notify": ("notify",),
    "webhook": ("open_hw_ticket",),
    "createObject": ("external_remediation",),
}


def changing(action: str) -> bool:
    """Return whether an action changes a node, its pods or its host."""
    return action not in PASSIVE and not action.startswith("probe_")


def actions_of(step: Step) -> tuple[str, ...]:
    if step.agent is not None:
        return (_of_agent(step.agent),)
    if step.migrate is not None:
        deletes = step.migrate.on_timeout is OnTimeout.DELETE
        return ("drain", "delete_pod") if deletes else ("drain",)
    if step.reboot is not None:
        actions = {PowerPath.AGENT: "reboot_os", PowerPath.PROVIDER: "reboot_api"}
        return tuple(actions[path] for path in step.reboot.via)
    if isinstance(step.body, NodeKeyStep):
        return ("label_node",)
    return _STEPS[step.name]


def _of_agent(step: AgentStep) -> str:
    if step.unit is not None:
        unit = step.unit.rsplit(".", 1)[0]
        return next((word for units, word in _UNITS if unit in units), "restart_service")
    if step.action is AgentAction.CLEAN_DISK:
        return _CLEANED.get(step.params.get("target", "images"), "delete_files")
    if step.action is AgentAction.REPAIR_COMPONENT:
        component = step.params.get("component", "")
        return next((w for name, w in _COMPONENTS.items() if name in component), "restart_service")
    return _AGENT[step.action]


def plan(rule: NodeRemedier, start_rung: int = 0) -> list[str]:
    """Return the actions of a job that starts at that rung, if no rung helps.

    The cordon that a job removes after verification is no step of a ladder and is not included.
    """
    rungs = (rule.spec.ladder or [])[start_rung:]
    actions = [action for rung in rungs for step in rung.steps for action in actions_of(step)]
    if rule.spec.on_give_up is OnGiveUp.HOLD:
        return [*actions, WAIT_HUMAN] if actions[-1:] != [WAIT_HUMAN] else actions
    cordons = "cordon" in actions and actions[-1] != "uncordon"
    return [*actions, "uncordon"] if cordons else actions


def repair_class(rule: NodeRemedier, start_rung: int = 0) -> RepairClass:
    """Return the class of the first rung, without the steps that wait for a person's approval."""
    rungs = (rule.spec.ladder or [])[start_rung:]
    if not rungs:
        return RepairClass.NONE_OBSERVE
    return class_of(list(_before_approval(rungs[0])), _person_next(rule, rungs))


def class_of(actions: Sequence[str], person_next: bool) -> RepairClass:
    """Return the class of actions that run together.

    person_next: whether a person decides what comes after them.
    """
    for word, candidate in _DECISIVE.items():
        if word in actions:
            return candidate
    if "drain" in actions:
        waits = RepairClass.CORDON_DRAIN_WAIT_HUMAN
        return waits if person_next else RepairClass.EVICT_DRAIN
    if "cordon" in actions:
        return RepairClass.CORDON_WAIT_HUMAN if person_next else RepairClass.CORDON_ONLY
    if "uncordon" in actions:
        return RepairClass.UNCORDON_AFTER_EVENT
    for word, candidate in _HOST.items():
        if word in actions:
            return candidate
    if any(changing(word) for word in actions):
        return RepairClass.RESTART_SERVICE
    return RepairClass.NOTIFY_ONLY if set(actions) & TELLING else RepairClass.NONE_OBSERVE


TELLING = PASSIVE - {"none", "suppress"}
"""Actions by which people learn of a fault or see its cause."""
_DECISIVE = {
    "out_of_service_taint": RepairClass.FENCE_OUT_OF_SERVICE,
    "replace_node": RepairClass.CORDON_DRAIN_REPLACE,
    "external_remediation": RepairClass.CORDON_DRAIN_REPLACE,
    "power_cycle": RepairClass.CORDON_DRAIN_REBOOT,
    "reboot_os": RepairClass.CORDON_DRAIN_REBOOT,
    "reboot_api": RepairClass.CORDON_DRAIN_REBOOT,
    "gpu_reset": RepairClass.GPU_RESET,
    "approve_host_event": RepairClass.APPROVE_EVENT,
}
"""The first of these actions in a rung decides its class."""
_HOST = {
    "delete_sandbox": RepairClass.DELETE_SANDBOX,
    **dict.fromkeys((*_CLEANED.values(), "delete_files"), RepairClass.CLEAN_DISK),
    "tune_sysctl": RepairClass.TUNE_SYSCTL,
}


def _before_approval(rung: Rung) -> Iterator[str]:
    for step in rung.steps:
        if step.wait_for_approval is not None:
            return
        yield from actions_of(step)


def _person_next(rule: NodeRemedier, rungs: Sequence[Rung]) -> bool:
    """Return whether a person decides what follows the automatic steps of the first rung."""
    if any(step.wait_for_approval is not None for step in rungs[0].steps):
        return True
    if len(rungs) == 1:
        return rule.spec.on_give_up is OnGiveUp.HOLD
    acts = [w for w in _before_approval(rungs[1]) if changing(w) and w not in ("cordon", "drain")]
    waits = any(step.wait_for_approval is not None for step in rungs[1].steps)
    return waits and not acts
