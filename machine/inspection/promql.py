"""Inspection of type PromQL: builds the query and judges the response. Pure.

`${nodes}` becomes an alternation of a regular expression within a string of the query. A dot is
written `[.]`, which means the same in every kind of string of PromQL. Node names contain no other
character that needs escaping.
"""

import math
import operator
from collections.abc import Callable, Sequence

import msgspec

from kubenode.api.v1alpha1.machinecomponentset import OnEmpty, PromQLCheck
from machine.inspection.port import PASSED, InspectionAnswer, InspectionResult

NODES = "${nodes}"
LONGEST = 200
"""Greatest length of Prometheus texts in a message, in characters."""
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


class _Series(msgspec.Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] = (0.0, "NaN")


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Response(msgspec.Struct, rename="camel"):
    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""
    warnings: list[str] = []


def question(query: str, nodes: Sequence[str]) -> str | InspectionAnswer:
    """Return the query for these nodes. Return an answer if it needs nodes and there are none."""
    if NODES not in query:
        return query
    if not nodes:
        return InspectionAnswer(
            InspectionResult.INCONCLUSIVE, "the query asks for nodes, and the batch has none"
        )
    return query.replace(NODES, "|".join(name.replace(".", "[.]") for name in sorted(nodes)))


def judged(check: PromQLCheck, raw: bytes) -> InspectionAnswer:
    """Return the answer from the response to an instant query."""
    try:
        response = msgspec.json.decode(raw, type=_Response)
        if response.status != "success":
            return _silent(f"Prometheus: {response.error or 'no answer that can be read'}")
        if response.warnings:
            return _silent(f"Prometheus warns: {response.warnings[0]}")
        values = _values(response.data)
    except (msgspec.ValidationError, msgspec.DecodeError, ValueError) as error:
        return _silent(f"Prometheus' answer cannot be read: {error}")
    if not values:
        return _empty(check.on_empty)
    return _compared(check.success, values)


def _values(data: _Data) -> list[tuple[str, float]]:
    """Return each value with its series. Raises ValueError for other result types."""
    match data.result_type:
        case "vector":
            series = msgspec.json.decode(data.result, type=list[_Series])
            return [(_named(s.metric), float(s.value[1])) for s in series]
        case "scalar":
            return [("", float(msgspec.json.decode(data.result, type=tuple[float, str])[1]))]
        case other:
            raise ValueError(f"it is a {other or 'nothing'}, not a vector or scalar")


def _compared(success: str, values: Sequence[tuple[str, float]]) -> InspectionAnswer:
    sign = success.rstrip("0123456789.").rstrip("-").rstrip()
    holds, bound = COMPARISONS[sign], float(success.removeprefix(sign))
    for where, value in values:
        if not math.isnan(value) and not holds(value, bound):
            return InspectionAnswer(InspectionResult.FAILED, f"{value:g}{where} is not {success}")
    for where, value in values:
        if math.isnan(value):
            return _silent(f"no number{where}")
    return PASSED


def _empty(policy: OnEmpty) -> InspectionAnswer:
    judged = {
        OnEmpty.INCONCLUSIVE: InspectionResult.INCONCLUSIVE,
        OnEmpty.SUCCESS: InspectionResult.PASSED,
        OnEmpty.FAILURE: InspectionResult.FAILED,
    }[policy]
    return (
        PASSED
        if judged is InspectionResult.PASSED
        else InspectionAnswer(judged, "the query finds nothing")
    )


def _named(metric: dict[str, str]) -> str:
    labels = ", ".join(f"{key}={value}" for key, value in sorted(metric.items()))
    return f" of {labels}"[:LONGEST] if labels else ""


def _silent(why: str) -> InspectionAnswer:
    return InspectionAnswer(InspectionResult.INCONCLUSIVE, why[:LONGEST])
