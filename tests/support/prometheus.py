"""A real Prometheus that scrapes what a test says, and promtool.

with Prometheus(folder, ["127.0.0.1:8081"]) as prometheus:
    prometheus.query("up")
"""

import json
import math
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.components import require
from support.daemons import Daemon, Served, free_port

INTERVAL = "1s"
Sample = tuple[dict[str, str], float]


class QueryError(AssertionError):
    """Prometheus refuses a query; the text is its reason."""


class Prometheus(Served):
    """Scrapes every second; lives as long as the `with` block.

    `alertmanagers`: addresses and ports that hear of alerts.
    """

    def __init__(
        self,
        folder: Path,
        targets: Sequence[str],
        rules: Sequence[Path] = (),
        alertmanagers: Sequence[str] = (),
    ) -> None:
        require("prometheus")
        self._folder, self.port = folder, free_port()
        config = {
            "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
            "rule_files": [str(path) for path in rules],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": list(alertmanagers)}]}]},
            "scrape_configs": [
                {"job_name": "kubenode", "static_configs": [{"targets": list(targets)}]}
            ],
        }
        file = folder / "prometheus.yml"
        file.write_text(json.dumps(config))  # JSON is YAML
        self.url = f"http://127.0.0.1:{self.port}"
        self._daemon = Daemon(
            "prometheus",
            [
                "prometheus",
                f"--config.file={file}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                "--rules.alert.resend-delay=1s",  # what fires before it knows an Alertmanager
                "--log.level=warn",
            ],
            folder / "prometheus.log",
        )

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2):
                return True
        except OSError:
            return False

    def query(self, expr: str) -> list[Sample]:
        """The instant vector (or scalar) of `expr` now. Raises QueryError."""
        body = self._get("/api/v1/query", query=expr)
        if body["resultType"] == "scalar":
            return [({}, float(body["result"][1]))]
        return [(each["metric"], float(each["value"][1])) for each in body["result"]]

    def figures(self, expr: str) -> list[Sample]:
        """Those that are numbers: a quantile of nothing is none."""
        return [sample for sample in self.query(expr) if not math.isnan(sample[1])]

    def names(self) -> set[str]:
        """Of every metric that was scraped."""
        return set(self._get("/api/v1/label/__name__/values"))

    def alerts(self) -> dict[str, str]:
        """State by name of the alerts that are not inactive."""
        found = self._get("/api/v1/alerts")["alerts"]
        return {alert["labels"]["alertname"]: alert["state"] for alert in found}

    def until(self, expr: str, seconds: float = 60.0) -> list[Sample]:
        """The figures of `expr` once there are some. AssertionError after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            if found := self.figures(expr):
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"no data within {seconds:g} s: {expr}")
            time.sleep(0.2)

    def _get(self, path: str, **query: str) -> Any:
        asked = f"{self.url}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(asked, timeout=15) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            told = json.loads(error.read())
            raise QueryError(f"{query.get('query', path)}: {told.get('error')}") from error


def promtool(*words: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    require("promtool")
    return subprocess.run(
        ["promtool", *map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


METRIC = re.compile(r"\bkubenode_\w+")


def metrics_in(expr: str) -> set[str]:
    """Of ours that a query names."""
    return set(METRIC.findall(expr))
