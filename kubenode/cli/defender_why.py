"""Explanations as text: what would have to change so that Kube Defender allows an act."""

from typing import Any

from defender.decision.control import RiskControl
from defender.decision.limits.case import LimitRefusal
from defender.decision.limits.table import LIMITS
from kubenode.api.v1alpha1 import Reason
from kubenode.cli.tables import table

SHOWN = 5
Report = dict[str, Any]

REMEDIES = {
    Reason.UNKNOWN: "no remedy is known",
    Reason.STALE_DATA: "Kube Defender must see the API server again; it retries by itself",
    Reason.STORE_UNAVAILABLE: "Kube Defender must be able to write permits: check its log",
    Reason.NODE_BUSY: "its holder must release the permit: `kubenode explain permit NAME`",
    Reason.FOREIGN_OWNER: "the other controller, or a person, must remove its mark from the node",
    Reason.EXCLUDED: "remove the label by which the policy excludes the node",
    Reason.POLICY_INVALID: "correct the policy: `kubectl describe defenderpolicy` shows the error",
    Reason.PAUSED: "a person must resume it: `kubenode resume --scope {scope}`",
    Reason.BREAKER_OPEN: "fewer nodes of {scope} may be faulty; the breaker half-opens by itself",
    Reason.COMMON_CAUSE: "fix or roll back what the faults have in common; repairs do not help",
    Reason.WINDOW_CLOSED: "wait for the window to open, or widen it in the policy or the rule",
    Reason.PER_NODE: "wait, and find out why the repairs of this node do not last",
    Reason.DISPLACED_PODS: "evicted pods need a place: check capacity, taints and quotas",
    **{each.reason: each.texts.remedy for each in LIMITS},
}


def remedy(no: LimitRefusal, control: RiskControl) -> str:
    text = REMEDIES.get(no.reason, "ask again later").format(scope=no.scope or "the cluster")
    if no.reason is Reason.CONCURRENCY_LIMIT:
        open_ = [
            permit for permit in control.ledger.open() if _inside(permit.node, no.scope, control)
        ]
        holders = sorted(f"{permit.node} ({permit.holder.name})" for permit in open_)
        more = ", …" if len(holders) > SHOWN else ""
        if holders:
            return f"{text}: {', '.join(holders[:SHOWN])}{more}"
    return text


def _inside(node: str, scope: str, control: RiskControl) -> bool:
    place = control.census.place(node)
    return place is not None and any(group[1] == scope for group in place.groups)


def lines(report: Report) -> list[str]:
    act = f"{report['operation']} of class {report['class']}"
    output = [
        f"node {report['node']}: {report['health']}; ruled by {', '.join(report['policies'])}",
        f"{act}: {_format_answer(report['answer'])}",
    ]
    if "told" in report:
        differs = report["told"]["allowed"] != report["answer"]["allowed"]
        note = " (it counts: it knows more than the objects tell)" if differs else ""
        output.append(f"the running Kube Defender says: {_format_answer(report['told'])}{note}")
    for no in report["against"]:
        output += [f"  {no['reason']}: {no['message']}", f"    to change it: {no['remedy']}"]
    output += ["", *_limits(report), "", *_states(report)]
    return output


def _format_answer(answer: Report) -> str:
    if answer["allowed"]:
        return "yes, now"
    return f"no, {answer['reason']}: {answer['message']}"


def _limits(report: Report) -> list[str]:
    rows = [
        [row["says"], row["policy"], row["scope"], row["kind"], f"{row['used']}/{row['limit']}"]
        for row in report["limits"]
    ]
    rows += [
        ["no" if row["used"] >= row["limit"] else "yes", row["policy"], f"node={report['node']}",
         "perNode", f"{row['used']}/{row['limit']}"]
        for row in report["perNode"]
    ]  # fmt: skip
    return table(["SAYS", "POLICY", "SCOPE", "LIMIT", "USED"], rows)


def _states(report: Report) -> list[str]:
    output = [
        f"breaker {row['scope']} of {row['policy']}: {row['state']}{_since(row)}"
        f" by the policy's status; now {row['faults']} of {row['nodes']} nodes faulty"
        for row in report["breakers"]
    ]
    output += [
        f"paused: {row['scope']} until {row['until']} (policy {row['policy']})"
        + (f" by {row['by']}" if row["by"] else "")
        + (f": {row['why']}" if row["why"] else "")
        for row in report["pauses"]
    ]
    output += [
        f"window {row['window']} of {row['policy']}: {row['now']} until {row['until']}"
        for row in report["windows"]
    ]
    output += [f"permit {permit}" for permit in report["permits"]]
    output += [_waits(row) for row in report["waiting"]]
    return output + _evictions(report["evictions"])


def _since(row: Report) -> str:
    return f" since {row['since']}" if row["since"] else ""


def _waits(row: Report) -> str:
    scope = f" {row['scope']}" if row["scope"] else ""
    if row["place"] is None:
        return f"{row['holder']} is held{_since(row)}: {row['reason']}{scope}"
    return f"{row['holder']} waits{_since(row)}: place {row['place']} for {row['reason']}{scope}"


def _evictions(preview: Report) -> list[str]:
    if preview["problem"]:
        return [f"evictions: not known: {preview['problem']}"]
    blocked = preview["blocked"]
    output = [
        f"evictions: {preview['pods']} pods would move, {len(blocked)} of them are blocked now"
    ]
    return output + [f"  {row['pod']}: {row['why']}" for row in blocked[:SHOWN]]
