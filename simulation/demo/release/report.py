"""The summary of the scenario: one line of JSON, or a table and sentences."""

from collections.abc import Iterator, Mapping
from typing import Any

from simulation.demo.release.observer import ReleaseObserver
from simulation.demo.release.payload import BAD, GOOD, MEMBERS
from simulation.demo.release.story import RELEASES
from simulation.demo.scenarios import RELEASE

SHOWN = 20
WIDTH = 20


def summarize(
    observer: ReleaseObserver, phases: Mapping[str, str], seconds: float
) -> dict[str, Any]:
    """Return the result. All but `releases` is from the members' objects alone.

    stagesInOrder: whether the good version reached every stage, in order.
    stoppedAt: the last stage that the bad version reached, None if it reached none.
    rolledBack: whether the stages with the bad version have again what stood there before.
    violations: stages that a version reached before the earlier ones had proven it.
    appeared: seconds at which each version appeared, by release and stage.
    releases: phase of each release, as Captain reports it.
    """
    stages = list(MEMBERS)
    good, bad = observer.list_stages(GOOD), observer.list_stages(BAD)
    return {
        "scenario": RELEASE,
        "seconds": round(seconds, 1),
        "clusters": len(stages),
        "stagesInOrder": good == stages,
        "stoppedAt": bad[-1] if bad else None,
        "rolledBack": observer.is_restored(BAD),
        "violations": len(observer.violations),
        "appeared": {RELEASES[version]: _list_times(observer, version) for version in RELEASES},
        "releases": dict(phases),
        **({"violationsSeen": observer.violations[:SHOWN]} if observer.violations else {}),
    }


def _list_times(observer: ReleaseObserver, version: str) -> dict[str, float]:
    stages = observer.list_stages(version)
    return {stage: round(observer.appeared[stage, version], 1) for stage in stages}


def describe(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the summary for people."""
    yield "".join(f"{text:<{WIDTH}}" for text in ("", *MEMBERS)).rstrip()
    for name, times in result["appeared"].items():
        cells = (f"at {times[stage]:g} s" if stage in times else "never" for stage in MEMBERS)
        yield "".join(f"{text:<{WIDTH}}" for text in (name, *cells)).rstrip()
    yield ""
    order = "went through all stages in order" if result["stagesInOrder"] else "did not arrive"
    yield f"The good release {order}."
    yield _describe_bad(result)
    early = f"{result['violations']} versions" if result["violations"] else "no version"
    yield f"By the members' own objects, {early} reached a stage before the earlier one proved it."
    yield from (f"  {text}" for text in result.get("violationsSeen", ()))
    yield f"It took {result['seconds']:g} s."


def _describe_bad(result: Mapping[str, Any]) -> str:
    if result["stoppedAt"] is None:
        return "The bad release reached no cluster."
    restored = "has again what it had before" if result["rolledBack"] else "was not restored"
    return f"The bad release stopped at {result['stoppedAt']}, which {restored}."
