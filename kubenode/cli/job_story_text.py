"""Renders the story of a job as text of 100 columns."""

import textwrap
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from defender.decision.pauses import describe_scope
from kubenode.cli.job_moments import JobMoment
from kubenode.cli.job_story import HoldSummary, JobStory, RungSummary
from kubenode.cli.lengths import length

WIDTH = 100
HERE = {"now": "=>"}
STATES = len("not tried")
SHORTEST = timedelta(milliseconds=50)


def text(story: JobStory) -> list[str]:
    lines = [f"job {story.job} on node {story.node}: {story.phase}"]
    lines += _wrapped("  ", story.message)
    lines += ["", *_pairs(story.facts)]
    lines += ["", "Why it was made", *_why(story)]
    lines += ["", "Ladder", *_ladder(story.ladder)]
    lines += ["", "What happened", *_moments(story.moments)]
    if story.hold is not None:
        lines += ["", "Why it waits", *_hold(story.hold)]
    if story.proof:
        lines += [
            "",
            "Pods and proof",
            *(line for each in story.proof for line in _wrapped("  ", each)),
        ]
    if story.can:
        lines += ["", "What you can do", *_commands(story.can)]
    return lines


def _wrapped(first: str, text: str, rest: str | None = None) -> list[str]:
    """Wrap `text` after the prefix `first`.

    rest: the prefix of further lines; None for as many spaces as `first` has characters.
    """
    rest = " " * len(first) if rest is None else rest
    return textwrap.wrap(
        " ".join(text.split()), WIDTH, initial_indent=first, subsequent_indent=rest,
        break_on_hyphens=False,
    )  # fmt: skip


def _pairs(pairs: tuple[tuple[str, str], ...]) -> Iterator[str]:
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        yield from _wrapped(f"  {name.ljust(width)}  ", value)


def _why(story: JobStory) -> Iterator[str]:
    for line in story.explanation.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        yield from _wrapped(indent, line, indent + "  ") or [""]
    if not story.explanation:
        yield "  nothing is written of it"
    if story.evidence:
        yield "  read when it was made:"
        for value, atom, by in story.evidence:
            yield from _wrapped(f"    {value:8}", f"{atom}{f' ({by})' if by else ''}")
    if story.others:
        yield "  rules that matched too:"
        for name, why in story.others:
            yield from _wrapped("    ", f"{name}: {why}", "      ")


def _ladder(rungs: tuple[RungSummary, ...]) -> Iterator[str]:
    name, class_ = (
        max((len(rung.name) for rung in rungs), default=0),
        max((len(rung.class_) for rung in rungs), default=0),
    )
    for rung in rungs:
        head = f"  {HERE.get(rung.state, '  ')} {rung.number} {rung.name.ljust(name)}"
        head += f"  {rung.state.ljust(STATES)}  {rung.class_.ljust(class_)}  "
        yield from _wrapped(head, ", ".join(rung.steps))


def _moments(moments: tuple[JobMoment, ...]) -> Iterator[str]:
    day: date | None = None
    before: datetime | None = None
    for moment in moments:
        at = moment.at.astimezone(UTC)
        if at.date() != day:
            day = at.date()
            yield f"  {day:%Y-%m-%d}, UTC"
        passed = at - before if before is not None else timedelta(0)
        took = f"+{length(passed)}" if passed >= SHORTEST else ""
        before = at
        sentence = f"{moment.what}: {moment.why}" if moment.why else moment.what
        yield from _wrapped(f"  {at:%H:%M:%S}  {took:>7}  ", sentence)


def _hold(hold: HoldSummary) -> Iterator[str]:
    scope = f" of {describe_scope(hold.scope)}" if hold.scope else ""
    since = f", since {hold.since.astimezone(UTC):%H:%M:%S}" if hold.since is not None else ""
    again = hold.requeue_at
    requeue = f", looked at again {again.astimezone(UTC):%H:%M:%S}" if again is not None else ""
    yield from _wrapped("  ", f"{hold.reason}{scope}{since}{requeue}", "    ")
    yield from _wrapped("    ", hold.message)
    if hold.means:
        yield from _wrapped("    ", hold.means)
    if hold.changes:
        yield from _wrapped("    to change it: ", hold.changes, "      ")


def _commands(can: tuple[tuple[str, str], ...]) -> Iterator[str]:
    width = max(len(command) for command, _ in can)
    for command, what in can:
        if 2 + width + 2 + len(what) <= WIDTH:
            yield f"  {command.ljust(width)}  {what}"
        else:
            yield f"  {command}"
            yield from _wrapped("      ", what)
