"""Writes the results of rule tests as JUnit XML for continuous integration systems."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol
from xml.etree import ElementTree as ET

from simulation.replay.expectations import Difference
from simulation.replay.testfile import RuleTestCase

CONTROL = {c: None for c in range(32) if chr(c) not in "\t\n\r"}
"""Control characters that XML does not allow."""


class Failed(Protocol):
    @property
    def place(self) -> str: ...
    @property
    def difference(self) -> Difference: ...


@dataclass(frozen=True, slots=True)
class CaseResult:
    case: RuleTestCase
    failures: Sequence[Failed]
    seconds: float
    unsimulated: Sequence[str] = ()


def junit_xml(results: Sequence[CaseResult]) -> str:
    root = ET.Element("testsuites", name="kubenode rules test")
    for file, group in groupby(results, key=lambda result: str(result.case.file)):
        several = list(group)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=file,
            tests=str(len(several)),
            failures=str(sum(bool(result.failures) for result in several)),
            errors="0",
            time=f"{sum(result.seconds for result in several):.3f}",
        )
        for result in several:
            _case(suite, file, result)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _case(suite: ET.Element, file: str, result: CaseResult) -> None:
    name = result.case.test.name.translate(CONTROL)
    case = ET.SubElement(suite, "testcase", classname=file, name=name, time=f"{result.seconds:.3f}")
    if not result.failures:
        return
    first = result.failures[0].difference.message.translate(CONTROL)
    lines = []
    for failure in result.failures:
        lines.append(f"{failure.place}: {failure.difference.message}")
        lines += [f"    {line}" for line in failure.difference.explain]
    element = ET.SubElement(case, "failure", message=first, type="Difference")
    element.text = "\n".join(lines).translate(CONTROL)
