"""`kubenode job list --watch`: prints the list, then a line for each change, until interrupted."""

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import typer

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.cli.job_list import COLUMNS, KIND, WIDE, JobFilter, order, row
from kubenode.cli.options import Listing
from kubenode.cli.tables import as_yaml, column_widths, object_name, table_line
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer


class JobWatch:
    """Prints jobs as they change.

    now: reads the time, for ages.
    """

    def __init__(
        self,
        selection: JobFilter,
        output: Listing,
        now: Callable[[], datetime],
        echo: Callable[[str], None] = typer.echo,
    ) -> None:
        self._selection, self._output, self._now, self._echo = selection, output, now, echo
        self._columns = {**COLUMNS, **(WIDE if output is Listing.WIDE else {})}
        self._widths: list[int] = []
        self._printed: dict[str, dict[str, Any]] = {}

    def begin(self, jobs: Sequence[RemedyOperationJob]) -> None:
        """Print the jobs that exist, in the order of `kubenode job list`."""
        jobs = sorted((job for job in jobs if self._selection.accepts(job)), key=order)
        rows = [row(job, self._now()) for job in jobs]
        cells = [list(self._columns), *(self._cells(each) for each in rows)]
        self._widths = column_widths(cells)
        if self._output in (Listing.TABLE, Listing.WIDE):
            self._echo(table_line(list(self._columns), self._widths))
        for each in rows:
            self._print(each)

    def changed(
        self, name: str, before: RemedyOperationJob | None, job: RemedyOperationJob | None
    ) -> None:
        """Print the new state of a job; a deleted job once more, in its last state."""
        current = job or before
        if current is None or not (self._selection.accepts(current) or name in self._printed):
            return
        line = row(current, self._now())
        if job is None:
            self._printed.pop(name, None)
            line["phase"] = "Deleted"
        elif self._printed.get(name) == _without_age(line):
            return
        self._print(line)

    def _print(self, line: dict[str, Any]) -> None:
        if line["phase"] != "Deleted":
            self._printed[line["name"]] = _without_age(line)
        match self._output:
            case Listing.JSON:
                self._echo(json.dumps(line, ensure_ascii=False))
            case Listing.YAML:
                self._echo(f"---\n{as_yaml(line)}".rstrip("\n"))
            case Listing.NAME:
                self._echo(object_name(KIND, line["name"]))
            case Listing.TABLE | Listing.WIDE:
                self._echo(table_line(self._cells(line), self._widths))

    def _cells(self, line: dict[str, Any]) -> list[Any]:
        return [line[key] for key in self._columns.values()]


def _without_age(line: dict[str, Any]) -> dict[str, Any]:
    """Return what makes two lines different: a job ages without a change."""
    return {key: value for key, value in line.items() if key != "age"}


async def watch_jobs(kube: Kube, selection: JobFilter, output: Listing) -> None:
    """Print the list and each change, without an end."""
    path = paths.custom(RemedyOperationJob.resource.plural)
    selector = selection.field_selector
    informer = Informer(kube, path, RemedyOperationJob.from_server, field_selector=selector)
    watch = JobWatch(selection, output, kube.clock.now)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(informer.run())
        await informer.synced.wait()
        watch.begin(list(informer.cache.values()))
        informer.add_handler(watch.changed)
