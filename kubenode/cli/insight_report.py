"""Reads an analysis from Insight and prints it as a table, JSON or CSV."""

import asyncio
import csv
import json
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import typer

from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.insight_app import Rows
from kubenode.cli.lengths import length
from kubenode.cli.tables import table
from kubenode.runtime.clock import SystemClock

TIMEOUT_SECONDS = 60.0
STAGES = ("detect", "permit", "drain", "act", "prove")


@dataclass(frozen=True, slots=True)
class InsightAddress:
    """Address and credentials. authorities: PEM file, None for those of the system."""

    url: str
    token_file: Path | None = None
    authorities: Path | None = None


@dataclass(frozen=True, slots=True)
class InsightAnalysis:
    """An analysis of the API.

    flat: returns the cells of a row for CSV, by column
    shown: returns the cells of a row for a table, by heading
    """

    path: str
    flat: Callable[[Mapping[str, Any]], dict[str, Any]]
    shown: Callable[[Mapping[str, Any]], dict[str, Any]]


async def report(
    analysis: InsightAnalysis,
    address: InsightAddress,
    query: Mapping[str, Any],
    output: Rows,
) -> None:
    """Print the analysis. `query` has the length of the period as `since`. Raises Refusal."""
    until = SystemClock().now()
    period = {"since": (until - query["since"]).isoformat(), "until": until.isoformat()}
    answer = await _read(analysis.path, address, {**query, **period})
    rows: Sequence[Mapping[str, Any]] = answer["rows"]
    match output:
        case Rows.JSON:
            typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        case Rows.CSV:
            _print_csv([analysis.flat(row) for row in rows])
        case Rows.TABLE:
            _print_table([analysis.shown(row) for row in rows])


async def _read(path: str, address: InsightAddress, query: Mapping[str, str]) -> Any:
    place, headers = address.url.rstrip("/") + path, _authorization(address.token_file)
    tls = _context(address.authorities)
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
            f"Insight does not answer at {address.url}: {why}; is --url right?", Exit.UNREACHABLE
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


def _print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        typer.echo("no rows")
        return
    for line in table(list(rows[0]), [list(row.values()) for row in rows]):
        typer.echo(line)


# -- healing ---------------------------------------------------------------------------------------


def _flat_healing(row: Mapping[str, Any]) -> dict[str, Any]:
    cells = {name: value for name, value in row.items() if name != "stages"}
    for stage in STAGES:
        times = row["stages"].get(stage, {})
        cells |= {f"{stage}_{name}": times.get(name, "") for name in ("jobs", "p50", "p95")}
    return cells


def _shown_healing(row: Mapping[str, Any]) -> dict[str, Any]:
    counts = ("rule", "rung", "jobs", "succeeded", "failed", "relapsed", "escalated")
    cells = {name.upper(): row[name] for name in counts}
    return cells | {f"{stage} P50/P95".upper(): _times(row, stage) for stage in STAGES}


def _times(row: Mapping[str, Any], stage: str) -> str:
    times = row["stages"].get(stage)
    if times is None:
        return ""
    return "/".join(length(timedelta(seconds=times[name])) for name in ("p50", "p95"))


HEALING = InsightAnalysis("/v1/healing", _flat_healing, _shown_healing)

# -- faults ----------------------------------------------------------------------------------------


def _shown_faults(row: Mapping[str, Any]) -> dict[str, Any]:
    day = row["start"][:10]
    return {"START": day, "VALUE": row["value"], "FAULTS": row["faults"], "NODES": row["nodes"]}


FAULTS = InsightAnalysis("/v1/faults", dict, _shown_faults)

# -- lemons ----------------------------------------------------------------------------------------


def _flat_lemons(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "classes": _classes(row)}


def _shown_lemons(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("cluster", "node", "faults", "relapses", "failed")
    cells = {name.upper(): row[name] for name in names}
    return cells | {"LAST": _minute(row["last"]), "CLASSES": _classes(row)}


def _classes(row: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={count}" for name, count in sorted(row["classes"].items()))


def _minute(text: str) -> str:
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M}"


LEMONS = InsightAnalysis("/v1/lemons", _flat_lemons, _shown_lemons)
