"""Renders the report of a run: numbers by kind, truth, stage and origin, then wrong cases."""

from collections.abc import Iterator

from simulation.cases.scores import Score

KEYS = ("kind", "truth", "stage", "origin")
HEADS = (
    "", "cases", "right", "class", "fault", "first", "precision", "recall", "false acts",
    "silent", "over", "under", "must_not",
)  # fmt: skip


def rows(score: Score) -> Iterator[tuple[str, ...]]:
    """Yield one row for all cases, then one for each value of each key."""
    yield _row("all", score)
    for key in KEYS:
        for value, part in score.per(key).items():
            yield _row(f"{key}={value}", part)


def lines(score: Score) -> Iterator[str]:
    table = [HEADS, *rows(score)]
    widths = [max(len(row[i]) for row in table) for i in range(len(HEADS))]
    for row in table:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()
    wrong = score.wrong
    if not wrong:
        return
    yield ""
    yield "wrong:"
    for judged in wrong:
        wanted = "/".join(judged.case.expected.allowed)
        broken = f" must_not {','.join(judged.violations)}" if judged.violations else ""
        yield f"  {judged.case.id}: want {wanted}, got {judged.prediction.repair_class}{broken}"


def _row(name: str, s: Score) -> tuple[str, ...]:
    return (
        name,
        str(s.cases),
        str(s.right),
        str(s.class_right),
        str(s.fault_right),
        str(s.first_right),
        _share(s.acts_right, s.acts),
        _share(s.want_act_hit, s.want_act),
        f"{s.false_actions}/{s.want_quiet}",
        f"{s.silent_misses}/{s.want_word}",
        str(s.excessive_count),
        str(s.under),
        str(s.violations),
    )


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} {100 * part / whole:.0f}%" if whole else "-"
