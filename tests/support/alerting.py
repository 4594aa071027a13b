"""A real Alertmanager that tells a webhook, and a Prometheus with a node_exporter that tell it.

    with Alertmanager(folder, "http://127.0.0.1:1/v1/alertmanager", token_file) as alertmanager:
        alertmanager.fire(labels)
        alertmanager.resolve(labels)

Groups wait a tenth of a second. A Prometheus takes some nine seconds to its first alert: its own
wait before the first scrape, an evaluation and a send.
"""

import json
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from support.components import require
from support.daemons import Daemon, Served, free_port

from kubenode.runtime.clock import SystemClock


class Alertmanager(Served):
    """Lives as long as the `with` block.

    url        of the webhook
    token      file with the bearer token to show there
    authority  PEM file that the webhook's certificate is signed by; None: it speaks plain HTTP
    """

    def __init__(
        self,
        folder: Path,
        url: str,
        token: Path,
        authority: Path | None = None,
        server_name: str = "",
    ) -> None:
        require("prometheus-alertmanager")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        http: dict[str, Any] = {"authorization": {"credentials_file": str(token)}}
        if authority is not None:
            http["tls_config"] = {"ca_file": str(authority), "server_name": server_name}
        config = {
            "route": {
                "receiver": "kubenode",
                "group_by": ["alertname"],
                "group_wait": "100ms",
                "group_interval": "500ms",
                "repeat_interval": "1h",
            },
            "receivers": [
                {
                    "name": "kubenode",
                    "webhook_configs": [{"url": url, "send_resolved": True, "http_config": http}],
                }
            ],
        }
        file = folder / "alertmanager.yml"
        file.write_text(json.dumps(config))  # JSON is YAML
        self._daemon = Daemon(
            "alertmanager",
            [
                "prometheus-alertmanager",
                f"--config.file={file}",
                f"--storage.path={folder / 'alertmanager'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--cluster.listen-address=",
                "--log.level=warn",
            ],
            folder / "alertmanager.log",
        )

    def _ready(self) -> bool:
        return answers(f"{self.url}/-/ready")

    def fire(self, *alerts: Mapping[str, str], since: datetime | None = None) -> None:
        """As Prometheus would: labels of alerts that fire since then, or since now."""
        now = SystemClock().now()
        self._send(alerts, since or now, now + timedelta(hours=1))

    def resolve(self, *alerts: Mapping[str, str], since: datetime) -> None:
        self._send(alerts, since, SystemClock().now())

    def _send(self, alerts: Sequence[Mapping[str, str]], starts: datetime, ends: datetime) -> None:
        times = {"startsAt": starts.isoformat(), "endsAt": ends.isoformat()}
        notes = {"annotations": {"summary": "A test's alert."}}
        body = [{"labels": dict(labels), **notes, **times} for labels in alerts]
        post(f"{self.url}/api/v2/alerts", body)

    def failures(self) -> float:
        """Notifications to the webhook that failed, tries of one that is tried again included."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        name = 'alertmanager_notification_requests_failed_total{integration="webhook"} '
        line = next(line for line in text.splitlines() if line.startswith(name))
        return float(line.removeprefix(name))


class NodeExporter(Served):
    """Tells this machine's figures, and those in `*.prom` files of `folder`."""

    def __init__(self, folder: Path) -> None:
        require("prometheus-node-exporter")
        self.port = free_port()
        self.target = f"127.0.0.1:{self.port}"
        self._daemon = Daemon(
            "node_exporter",
            [
                "prometheus-node-exporter",
                f"--web.listen-address={self.target}",
                "--collector.disable-defaults",
                "--collector.uname",
                "--collector.textfile",
                f"--collector.textfile.directory={folder}",
                "--log.level=warn",
            ],
            folder / "node_exporter.log",
        )

    def _ready(self) -> bool:
        return answers(f"http://{self.target}/")


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


def post(url: str, body: Any) -> None:
    """Raises urllib.error.HTTPError for what is not taken."""
    raw = json.dumps(body).encode()
    asked = urllib.request.Request(url, raw, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=10):
        return
