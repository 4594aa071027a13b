"""The rows of vendor tables and of the agent's own detectors, with the signal that a detector
sends.

A row says what a detector can report. Its signal is built from the row alone, so that nobody can
claim by hand that a rule serves it.
"""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import agent.detectors.logs
from kubenode.api.v1alpha1.hostevent import HostEventClass
from rules.lint.conditions import OURS

OFTEN = 60
"""Occurrences of an Event in one signal: more than any rule requires."""
CODE, UNIT = 82, "Chronyd"
"""Values for %d and %s in reasons."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A condition, an Event, an alert or a HostEvent: exactly one is set."""

    condition: tuple[str, str, str] | None = None
    """Type, status, reason."""
    event: tuple[str, str, str] | None = None
    """Reason, message, source."""
    alert: tuple[str, tuple[tuple[str, str], ...]] | None = None
    """Name and labels."""
    host_event: tuple[str, str] | None = None
    """Class, phase."""
    message: str = ""
    """The message of the condition."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    name: unique within the table.
    signals: empty if the row can reach no node.
    """

    table: str
    name: str
    signals: tuple[Signal, ...] = field(default=())


class NoData(Exception):
    """A table that is missing or has changed; the message says which, and what to do."""


def rows(folder: Path) -> list[Row]:
    """Return every row of every table in `folder`, each name once. Raises NoData."""
    by_name: dict[tuple[str, str], Row] = {}
    for read in _TABLES:
        try:
            for row in read(folder):
                known = by_name.get((row.table, row.name))
                signals = (*(known.signals if known else ()), *row.signals)
                by_name[row.table, row.name] = Row(
                    row.table, row.name, tuple(dict.fromkeys(signals))
                )
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise NoData(
                f"{folder}: the vendor tables cannot be read: {error}; name their folder with"
                " --data or KUBENODE_SHARED_DATA"
            ) from error
    return list(by_name.values())


def _load(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def _condition(type_: str, reason: str = "", status: str = "True", message: str = "") -> Signal:
    return Signal(condition=(type_, status, reason), message=message)


def _event(reason: str, message: str = "", source: str = "") -> Signal:
    return Signal(event=(reason, message, source))


def _npd(folder: Path) -> Iterator[Row]:
    for rule in _load(folder, "npd_rules.json")["rules"]:
        reason = rule["reason_when_bad"]
        if rule["kind"] == "condition":
            name = rule["condition"]
            yield Row("node-problem-detector", name, (_condition(name, reason),))
        else:
            yield Row("node-problem-detector", reason, (_event(reason, "", rule["source_name"]),))


def _eks(folder: Path) -> Iterator[Row]:
    """Yield the rows of the EKS agent.

    The reason of its Events is the condition's type, and their message begins with the reason.
    """
    for row in _load(folder, "eks_nma_reasons.json")["reasons"]:
        type_, text = row["condition"], row["description"]
        if row["key"].startswith("NvidiaXID"):
            continue  # see the catalogue of Xids
        reason = row["reason"].replace("%d", str(CODE)).replace("%s", UNIT)
        if row["surfaces_as"].startswith("condition"):
            signal = _condition(type_, reason, "False", text)
        else:
            signal = _event(type_, f"{reason}: {text}")
        yield Row("EKS node monitoring agent", row["key"], (signal,))
    for row in _load(folder, "eks_nma_log_patterns.json")["patterns"]:
        type_, reason = row["condition"], row["reason"]
        if row["surfaces_as"] == "condition":
            signal = _condition(type_, reason, "False")
        else:
            signal = _event(type_, f"{reason}: a line of the log")
        yield Row("EKS log patterns", reason, (signal,))


def _xids(folder: Path) -> Iterator[Row]:
    catalogue = _load(folder, "xid_catalog.json")
    for xid in catalogue["xids"]:
        code, default = xid["code"], xid["library_default"]
        signals = [_event("GPULog", f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=1, name=x")]
        if xid["eks_agent_fatal"]:
            signals.append(_condition("AcceleratedHardwareReady", f"NvidiaXID{code}Error", "False"))
        else:
            text = f"NvidiaXID{code}Warning: detected unknown XID-{code} on the instance"
            signals.append(_event("AcceleratedHardwareReady", text))
        if default != "from_message":
            yield Row(f"Xid: {default}", f"Xid {code}", tuple(signals))
    for text in catalogue["xid154_text"]:
        if text != "source":
            shown = text if text.startswith("(") else "(Something New)"
            line = f"NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed to 0x1 {shown}"
            yield Row("Xid 154 and SXid", f"154 {text}", (_event("GPULog", line),))
    for severity in ("Fatal", "Non-fatal"):
        line = f"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, {severity}, Link 44"
        yield Row("Xid 154 and SXid", f"SXid {severity}", (_event("GPULog", line),))
    yield Row(
        "Xid 154 and SXid", "unknown code", (_event("GPULog", "NVRM: Xid (PCI:0:3b:00): 4711, x"),)
    )


_LABELS = {
    "node": "a", "instance": "10.0.0.5:9100", "mountpoint": "/var/lib/containerd", "device": "md0",
    "name": "kubelet.service", "condition": "DiskPressure", "master": "bond0",
    "eviction_signal": "nodefs.available",
}  # fmt: skip
"""Labels of alerts, each with a possible value."""


def _alerts(folder: Path) -> Iterator[Row]:
    for alert in _load(folder, "alerts.json")["alerts"]:
        name, severity = alert["alert"], alert["severity"]
        if alert["node_label"] in ("none", "cluster"):
            yield Row("alerts", f"{name} ({severity})")
            continue
        labels = {key: _LABELS[key] for key in alert["labels_in_text"]} | {"severity": severity}
        yield Row("alerts", f"{name} ({severity})", (Signal(alert=(name, tuple(labels.items()))),))


def _ack(folder: Path) -> Iterator[Row]:
    table = _load(folder, "ack_auto_repair.json")
    for row in table["rules"]:
        type_, reason = row["condition"], row.get("reason", "")
        name = f"{type_}/{reason}" if reason else type_
        yield Row("Alibaba ACK", name, (_condition(type_, reason),))
    for name in (*table["gpu"]["hardware_repair"], *table["gpu"]["node_restart"]):
        yield Row("Alibaba ACK", name, (_condition(name),))


def _aks(folder: Path) -> Iterator[Row]:
    table = _load(folder, "aks_npd_and_repair.json")
    for row in table["conditions"]:
        reason = row["reason"] if " " not in row["reason"] else ""
        yield Row("AKS", row["condition"], (_condition(row["condition"], reason),))
    for name in table["events"]:
        yield Row("AKS", f"event {name}", (_event(name, "", _SOURCES.get(name, "")),))


_SOURCES = {
    "KubeletStart": "systemd-monitor",
    "DockerStart": "systemd-monitor",
    "ContainerdStart": "systemd-monitor",
    "TaskHung": "kernel-monitor",
}
"""Events of AKS that its node-problem-detector writes, with their source."""


def _tke(folder: Path) -> Iterator[Row]:
    table = _load(folder, "tke_node_healing_rules.json")
    older = table["older_npdplus_self_heal"]["rules"]
    for name in (*(c for row in table["rules"] for c in row["conditions"]),):
        yield Row("Tencent TKE", name, (_condition(name),))
    for row in older:
        name = row["condition"]
        yield Row(
            "Tencent TKE, older", name, (_condition(name), _event(name, "", "kernel-monitor"))
        )


def _cce(folder: Path) -> Iterator[Row]:
    for row in _load(folder, "huawei_cce_checks.json")["checks"]:
        for name in row["name"].split(" / "):
            yield Row("Huawei CCE", name, (_condition(name),))


def _host_events(folder: Path) -> Iterator[Row]:
    """Yield classes of HostEvents with open phases.

    Parsers of Host Doctor have tests of their own.
    """
    _load(folder, "host_events_samples.json")
    for class_ in HostEventClass:
        for phase in ("Scheduled", "AwaitingApproval", "Active"):
            signal = Signal(host_event=(class_.value, phase))
            yield Row("host events", f"{class_.value} {phase}", (signal,))


def _agent(folder: Path) -> Iterator[Row]:
    """Yield what the agent's own detectors report, with the sample lines of each pattern."""
    for pack in sorted(PACKS.glob("*.toml")):
        given = tomllib.loads(pack.read_text(encoding="utf-8"))
        for rule in given["rule"]:
            if rule.get("clears"):
                continue
            reason, condition = rule["reason"], rule.get("condition", "")
            if condition:
                yield Row(AGENT, condition, (_condition(condition, reason),))
            else:
                signals = (_event(reason, line, given["detector"]) for line in rule["matches"])
                yield Row(AGENT, reason, tuple(signals))
    for name in sorted(OURS):
        reasons = CHECKED.get(name, ("",))
        yield Row(AGENT, name, tuple(_condition(name, reason) for reason in reasons))


CHECKED = {
    "CertificateExpiring": ("CertificateExpired", "CertificateExpiresSoon"),
    "DiskSMARTProblem": ("DiskIsFailing", "NVMeWornOut"),
}
"""Reasons of checks whose condition stands for more than one fault."""
PACKS = Path(agent.detectors.logs.__file__).parent / "packs"
AGENT = "the agent's own detectors"
_TABLES = (_agent, _npd, _eks, _xids, _alerts, _ack, _aks, _tke, _cce, _host_events)
