"""The page `report.html` of a bundle: main findings, then every part. Pure function.

One file without scripts or external addresses, so that it can be read offline.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

FULL_PERCENT = 90
PRESSED_PERCENT = 10.0
"""Share of the last 10 s in which some task waited, in percent. Lower values are not reported."""
MOST_LINES = 8
EXCERPT_CHARACTERS, EXCERPT_LINE = 1000, 200
"""Longest excerpt and longest line of it, so that both fit the status of a job."""
_BAD_LINES = re.compile(
    r"oops|panic|out of memory|oom-kill|i/o error|blocked for more than|soft lockup|hard lockup"
    r"|call trace|nvrm: xid|hardware error|remounting filesystem read-only|segfault",
    re.IGNORECASE,
)
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
  color: #1b1f24; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; } dd { margin: 0; }
pre { overflow: auto; max-height: 32rem; padding: .7rem; background: #f4f5f7; font-size: 13px; }
summary { cursor: pointer; padding: .3rem 0; } .well { color: #1a6b32; } li { margin: .25rem 0; }
@media (prefers-color-scheme: dark) { body { color: #e6e8ea; background: #14171a; }
  pre { background: #1e2226; } .well { color: #6fd08c; } }
"""


@dataclass(frozen=True, slots=True)
class About:
    """Header of the report; all fields are texts as displayed."""

    node: str
    agent: str
    boot_id: str
    at: str
    requester: str


def page(about: About, parts: Mapping[str, str]) -> str:
    """Render the report.

    parts: redacted text by name of the part
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(about.node)}: diagnostics</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>Diagnostics of {escape(about.node)}</h1>\n{_head(about)}\n"
        f"<h2>What stands out</h2>\n{_findings(parts)}\n<h2>All parts</h2>\n"
        + "\n".join(_part(name, text) for name, text in parts.items())
        + "\n</body></html>\n"
    )


def _head(about: About) -> str:
    rows = {
        "Collected": about.at,
        "For": about.requester,
        "Agent": about.agent,
        "Boot ID": about.boot_id,
    }
    shown = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in rows.items())
    return f"<dl>{shown}</dl>"


def _part(name: str, text: str) -> str:
    lines = text.count("\n")
    return (
        f'<details id="{escape(name)}"><summary>{escape(name)}, {lines} lines</summary>'
        f"<pre>{escape(text)}</pre></details>"
    )


def _findings(parts: Mapping[str, str]) -> str:
    lines = list(findings(parts))
    if not lines:
        looked = ", ".join(parts)
        return f'<p class="well">Nothing that these rules know, in: {escape(looked)}.</p>'
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def findings(parts: Mapping[str, str]) -> Iterator[str]:
    """Yield the main findings, one sentence or log line each. A missing part yields none."""
    yield from _failed_units(parts.get("units", ""))
    yield from _full_disks(parts.get("disks", ""))
    yield from _pressed(parts.get("pressure", ""))
    yield from _stuck(parts.get("processes", ""))
    yield from _bad_lines(parts.get("dmesg") or parts.get("journal", ""))


def excerpt(parts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the first findings, bounded. A character that is no text becomes a space."""
    lines: list[str] = []
    remaining = EXCERPT_CHARACTERS
    for finding in findings(parts):
        text = "".join(c if c.isprintable() else " " for c in finding).strip()[:EXCERPT_LINE]
        remaining -= len(text) + 1
        if remaining < 0:
            break
        lines.append(text)
    return tuple(lines)


def _failed_units(text: str) -> Iterator[str]:
    first = text.split("\n\n$ ", 1)[0]
    failed = [line.split()[0] for line in first.splitlines() if " failed " in f"{line} "]
    if failed:
        yield f"{len(failed)} failed units: {', '.join(failed[:MOST_LINES])}"


def _full_disks(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if (match := re.search(r"\s(\d+)%\s+(/\S*)$", line)) and int(match[1]) >= FULL_PERCENT:
            yield f"{match[2]} is {match[1]} % full: {' '.join(line.split())}"


def _pressed(text: str) -> Iterator[str]:
    for what, share in re.findall(r"pressure/(\w+)\n(?:.*\n)*?some avg10=([\d.]+)", text):
        if float(share) >= PRESSED_PERCENT:
            yield f"tasks waited for {what} in {share} % of the last 10 s"


def _stuck(text: str) -> Iterator[str]:
    for state, meaning in (("D", "in uninterruptible sleep"), ("Z", "are zombies")):
        lines = [line.split() for line in text.splitlines() if line.startswith(state)]
        if lines:
            names = ", ".join(f"{fields[-1]} ({fields[1]})" for fields in lines[:MOST_LINES])
            yield f"{len(lines)} processes {meaning}: {names}"


def _bad_lines(text: str) -> Iterator[str]:
    lines = [line for line in text.splitlines() if _BAD_LINES.search(line)]
    if len(lines) > MOST_LINES:
        yield f"{len(lines)} lines of the log speak of trouble; the last {MOST_LINES}:"
    yield from lines[-MOST_LINES:]
