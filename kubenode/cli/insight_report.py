"""Reads an analysis from Insight and prints it as a table, JSON or CSV."""

import asyncio
import json
import ssl
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import typer
from yarl import URL

from insight.export import (
    STAGES,
    Flatten,
    JsonRow,
    class_counts,
    flat_healing,
    flat_lemon,
    write_csv,
)
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.insight_app import InsightSelection, InsightSource, Rows
from kubenode.cli.lengths import length
from kubenode.cli.tables import table
from kubenode.runtime.clock import SystemClock

TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class InsightAnalysis:
    """An analysis of the API.

    flat: returns the cells of a row for CSV, by column
    shown: returns the cells of a row for a table, by heading
    """

    path: str
    flat: Flatten
    shown: Flatten


async def report(
    analysis: InsightAnalysis, source: InsightSelection, more: Mapping[str, str]
) -> None:
    """Print the analysis. more: its own parameters. Raises Refusal."""
    query, until = source.query, SystemClock().now()
    period = {"since": (until - query.pop("since")).isoformat(), "until": until.isoformat()}
    answer = await _read(analysis.path, source, {**query, **more, **period})
    rows: Sequence[JsonRow] = answer["rows"]
    match source.output:
        case Rows.JSON:
            typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        case Rows.CSV:
            write_csv([analysis.flat(row) for row in rows], sys.stdout)
        case Rows.TABLE:
            _print_table([analysis.shown(row) for row in rows])


async def report_incident(source: InsightSource, name: str) -> None:
    """Print one incident; as CSV, its moments. Raises Refusal."""
    answer = await _read(f"/v1/incidents/{quote(name, safe='')}", source, {})
    match source.output:
        case Rows.JSON:
            typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        case Rows.CSV:
            write_csv(answer["moments"], sys.stdout)
        case Rows.TABLE:
            _print_incident(answer)


async def _read(path: str, source: InsightSource, query: Mapping[str, str]) -> Any:
    headers, tls = _authorization(source.token_file), _context(source.ca_file)
    place = URL(source.url.rstrip("/") + path, encoded=True)
    try:
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            aiohttp.ClientSession() as session,
            session.get(place, params=query, headers=headers, ssl=tls) as response,
        ):
            return _checked(response.status, await response.read())
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        why = str(error) or type(error).__name__
        raise Refusal(
            f"Insight does not answer at {source.url}: {why}; is --url right?", Exit.UNREACHABLE
        ) from error


def _checked(status: int, body: bytes) -> Any:
    """Return the answer. Raises Refusal, and ValueError for an answer that is not Insight's."""
    answer = json.loads(body)
    if status == 200:
        return answer
    code = Exit.USAGE if status == 400 else Exit.FINDING
    hint = "; give --token-file" if status == 401 else ""
    raise Refusal(f"Insight answers {status}: {answer.get('message', '')}{hint}", code)


def _authorization(file: Path | None) -> dict[str, str]:
    if file is None:
        return {}
    try:
        return {"Authorization": f"Bearer {file.read_text().strip()}"}
    except OSError as error:
        raise Refusal(f"--token-file {file}: {error.strerror}", Exit.USAGE) from error


def _context(authorities: Path | None) -> ssl.SSLContext | bool:
    if authorities is None:
        return True
    try:
        return ssl.create_default_context(cafile=authorities)
    except OSError as error:
        why = error.strerror or "no certificate in PEM"
        raise Refusal(f"--ca-file {authorities}: {why}", Exit.USAGE) from error


def _print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        typer.echo("no rows")
        return
    for line in table(list(rows[0]), [list(row.values()) for row in rows]):
        typer.echo(line)


# -- healing ---------------------------------------------------------------------------------------


def _shown_healing(row: Mapping[str, Any]) -> dict[str, Any]:
    counts = ("rule", "rung", "jobs", "succeeded", "failed", "relapsed", "escalated")
    cells = {name.upper(): row[name] for name in counts}
    return cells | {f"{stage} P50/P95".upper(): _times(row, stage) for stage in STAGES}


def _times(row: Mapping[str, Any], stage: str) -> str:
    times = row["stages"].get(stage)
    if times is None:
        return ""
    return "/".join(length(timedelta(seconds=times[name])) for name in ("p50", "p95"))


HEALING = InsightAnalysis("/v1/healing", flat_healing, _shown_healing)

# -- faults ----------------------------------------------------------------------------------------


def _shown_faults(row: Mapping[str, Any]) -> dict[str, Any]:
    day = row["start"][:10]
    return {"START": day, "VALUE": row["value"], "FAULTS": row["faults"], "NODES": row["nodes"]}


FAULTS = InsightAnalysis("/v1/faults", dict, _shown_faults)

# -- lemons ----------------------------------------------------------------------------------------


def _shown_lemons(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("cluster", "node", "faults", "relapses", "failed")
    cells = {name.upper(): row[name] for name in names}
    return cells | {"LAST": _minute(row["last"]), "CLASSES": class_counts(row)}


def _minute(text: str) -> str:
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M}"


LEMONS = InsightAnalysis("/v1/lemons", flat_lemon, _shown_lemons)

# -- one incident ----------------------------------------------------------------------------------


def _print_incident(answer: JsonRow) -> None:
    data = answer["closed"] or answer["opened"] or {}
    job = data.get("job", {})
    facts = {
        "Job": job.get("name", answer["uid"]),
        "Node": f"{answer['node']} in {answer['cluster']}",
        "Fault": job.get("faultClass", ""),
        "Rule": job.get("rule", "") or "none: a person started the job",
        "Result": (answer["closed"] or {}).get("phase", "open"),
        "Relapse after": (answer["previous"] or {}).get("job", ""),
        "Came back as": ", ".join(each["job"] for each in answer["following"]),
    }
    for name, value in facts.items():
        if value:
            typer.echo(f"{name}: {value}")
    _print_part("", [_shown_moment(each) for each in answer["moments"]])
    _print_part("What worked for the same rule and fault", [_upper(e) for e in answer["rungs"]])
    _print_part("Similar incidents", [_shown_similar(each) for each in answer["similar"]])


def _print_part(title: str, rows: Sequence[JsonRow]) -> None:
    if rows:
        typer.echo(f"\n{title}:" if title else "")
        _print_table(rows)


def _upper(row: JsonRow) -> dict[str, Any]:
    return {name.upper(): value for name, value in row.items()}


def _shown_moment(row: JsonRow) -> dict[str, Any]:
    at = datetime.fromisoformat(row["at"]).astimezone(UTC)
    return {"TIME": f"{at:%Y-%m-%d %H:%M:%S}", "KIND": row["kind"], "WHAT HAPPENED": row["text"]}


def _shown_similar(row: JsonRow) -> dict[str, Any]:
    seconds = row["healSeconds"]
    return {
        "JOB": row["job"],
        "NODE": row["node"],
        "OPENED": _minute(row["opened"]),
        "RESULT": row["phase"] or "open",
        "LAST RUNG": row["rung"],
        "HEALED IN": "" if seconds is None else length(timedelta(seconds=seconds)),
    }
