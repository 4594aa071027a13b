"""From a sick node to an analysis: the operator streams to Insight, which is killed meanwhile.

The Remedy operator, Kube Defender and Insight run as programs on an embedded API server.
"""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import connect
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.command import kubenode
from support.daemons import free_port
from support.defender_objects import node_object, policy_object
from support.embedded import EmbeddedPlane
from support.programs import Program
from support.sick_node import JOBS, rule, say
from support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
PATIENCE = 120.0
EVENTS = "kubenode_insight_events"
SENDER, READER = "s" * 32, "r" * 32
RULE = rule("cordon-it", {"cordon": {}})


class InsightSite:
    """The three programs, and the commands of a reader."""

    def __init__(self, plane: EmbeddedPlane, folder: Path) -> None:
        self.plane, self.folder = plane, folder
        self.port, self.health = free_port(), free_port()
        for name, token in (("senders", SENDER), ("readers", READER)):
            (folder / name).write_text(token)
        self.database = folder / "insight.db"
        self.insight = Program("insight", self._insight_arguments(), folder)
        defender = free_port()
        shared = ("--kubeconfig", str(plane.kubeconfig), "--no-lease", "--health-port", "0")
        self.defender = Program(
            "defender", ("run", "defender", *shared, "--listen-port", str(defender)), folder
        )
        stream = ("--stream-url", f"{self.url}/v1/events", "--stream-cluster", "east")
        credential = ("--stream-token-file", str(folder / "senders"))
        doors = ("--defender-url", f"http://127.0.0.1:{defender}")
        self.remedy = Program(
            "remedy", ("run", "remedy", *shared, *doors, *stream, *credential), folder
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def logs(self) -> str:
        return "".join(each.log[-3000:] for each in (self.insight, self.remedy, self.defender))

    def stored(self) -> dict[str, str]:
        """IDs and types of stored events."""
        if not self.database.exists():
            return {}
        with closing(connect(self.database)) as connection:
            return dict(connection.execute("SELECT id, type FROM events").fetchall())

    def known(self) -> float:
        """Return how many events came again."""
        with urlopen(f"http://127.0.0.1:{self.health}/metrics", timeout=10) as page:
            text = page.read().decode()
        [family] = [f for f in text_string_to_metric_families(text) if f.name == EVENTS]
        return sum(s.value for s in family.samples if s.labels.get("outcome") == "known")

    def ask(self, *words: str) -> str:
        token = ("--token-file", str(self.folder / "readers"))
        answer = kubenode("insight", *words, "--url", self.url, *token)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def heal(self, node: str) -> None:
        """Let a node fall ill, and wait until its job has cordoned it and is verified."""
        say(self.plane, node, Ready="True", Sick="True")
        until(lambda: self.verifying(node), f"{node} cordoned", PATIENCE, lambda: self.logs)
        say(self.plane, node, Ready="True", Sick="False")
        until(lambda: self.closed(node), f"{node} healed", PATIENCE, lambda: self.logs)

    def jobs_of(self, node: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.plane.get(JOBS)["items"]
        return [job for job in items if job["spec"]["nodeName"] == node]

    def verifying(self, node: str) -> bool:
        return any(job.get("status", {}).get("phase") == "Verifying" for job in self.jobs_of(node))

    def closed(self, node: str) -> bool:
        timelines = [job.get("status", {}).get("timeline", {}) for job in self.jobs_of(node)]
        return bool(timelines) and all("closed" in timeline for timeline in timelines)

    def _insight_arguments(self) -> tuple[str, ...]:
        return (
            *(
                "run",
                "insight",
                "--health-port",
                str(self.health),
                "--insight-port",
                str(self.port),
            ),
            *("--database-url", f"sqlite:///{self.database}"),
            *("--sender-token-file", str(self.folder / "senders")),
            *("--reader-token-file", str(self.folder / "readers")),
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InsightSite]:
    """Two nodes were healed: one while Insight ran, one while it was killed."""
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        nodes = [node_object(f"n{i}", {}) for i in range(10)]
        policy = policy_object(limits=[{"scope": "Cluster", "maxConcurrent": 3}])
        plane.api.load(json.loads(json.dumps([*nodes, policy, RULE])))
        site = InsightSite(plane, tmp_path_factory.mktemp("insight"))
        programs = (site.insight, site.defender, site.remedy)
        try:
            for program in programs:
                program.start()
            site.heal("n1")
            until(lambda: closings(site) == 1, "n1 stored", PATIENCE, lambda: site.logs)
            site.insight.kill()
            site.heal("n2")
            site.insight.start()
            until(lambda: closings(site) == 2, "n2 stored", PATIENCE, lambda: site.logs)
            yield site
        finally:
            for program in programs:
                program.stop()


def closings(site: InsightSite) -> int:
    return sum(kind.endswith("job.closed") for kind in site.stored().values())


def test_outage_of_insight_loses_no_event(site: InsightSite) -> None:
    kinds = sorted(kind.rpartition("v1.")[2] for kind in site.stored().values())
    for kind in ("job.opened", "step.started", "step.ended", "permit.granted", "job.closed"):
        assert kinds.count(kind) == 2, kinds


def test_restarted_operator_stores_nothing_twice(site: InsightSite) -> None:
    before, known = site.stored(), site.known()
    site.remedy.kill()
    site.remedy.start()
    again = known + sum("/hold/" not in key for key in before)  # a hold that ended is not repeated
    until(lambda: site.known() >= again, "all events again", PATIENCE, lambda: site.logs)
    assert site.stored() == before


def test_commands_show_the_jobs_as_table_json_and_csv(site: InsightSite) -> None:
    [row] = json.loads(site.ask("healing", "-o", "json"))["rows"]
    count = closings(site)
    assert (row["rung"], row["jobs"], row["succeeded"]) == ("cordon-it", count, count)
    [line] = csv.DictReader(io.StringIO(site.ask("healing", "-o", "csv")))
    assert line["rung"] == "cordon-it"
    assert float(line["prove_p95"]) >= 0
    assert "cordon-it" in site.ask("healing")
    [fault] = csv.DictReader(io.StringIO(site.ask("faults", "--by", "cluster", "-o", "csv")))
    assert (fault["value"], int(fault["faults"])) == ("east", closings(site))
    assert "n1" in site.ask("lemons", "--min", "1")


def test_filters_reach_the_analyses(site: InsightSite) -> None:
    assert "no rows" in site.ask("healing", "--rule", "another")
    assert "no rows" in site.ask("faults", "--class", "another")
    assert "no rows" in site.ask("lemons", "--min", "1", "--cluster", "west")


def test_incident_is_told_from_signal_to_proof(site: InsightSite) -> None:
    [job] = site.jobs_of("n1")
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    text = site.ask("incident", name)
    assert text == site.ask("incident", uid)
    moments = csv.DictReader(io.StringIO(site.ask("incident", uid, "-o", "csv")))
    kinds = [line["kind"] for line in moments]
    assert kinds[:2] == ["Signal", "Opened"]
    assert {"Permit", "Step"} <= set(kinds)
    assert kinds.index("Verified") < kinds.index("Closed")
    assert "Node: n1 in east" in text
    assert "What worked for the same rule and fault:" in text
    token = ("--token-file", str(site.folder / "readers"))
    missing = kubenode("insight", "incident", "nothing", "--url", site.url, *token)
    assert missing.returncode == 1
    assert "no event of a job" in missing.stderr


def test_wrong_parameter_and_missing_token_are_explained(site: InsightSite) -> None:
    wrong = kubenode("insight", "faults", "--by", "colour", "--url", site.url,
                     "--token-file", str(site.folder / "readers"))  # fmt: skip
    assert wrong.returncode == 2
    assert "by: is 'colour'" in wrong.stderr
    nobody = kubenode("insight", "healing", "--url", site.url)
    assert nobody.returncode == 1
    assert "--token-file" in nobody.stderr


def test_absent_server_is_unreachable() -> None:
    answer = kubenode("insight", "healing", "--url", f"http://127.0.0.1:{free_port()}")
    assert answer.returncode == 3
    assert "is --url right" in answer.stderr


def test_wrong_settings_end_the_start_with_a_remedy(tmp_path: Path) -> None:
    def start(*words: str) -> str:
        answer = kubenode("run", "insight", *words)
        assert answer.returncode != 0
        return answer.stderr

    assert "sqlite:///FILE" in start("--database-url", "mysql://h/d")
    assert "--sender-token-file" in start("--insight-address", "0.0.0.0")
    tokens = [f"--{kind}-token-file={tmp_path / kind}" for kind in ("sender", "reader")]
    for kind in ("sender", "reader"):
        (tmp_path / kind).write_text("x" * 32)
    assert "--insight-cert-file" in start("--insight-address", "0.0.0.0", *tokens)
    (tmp_path / "reader").write_text("short")
    assert "openssl rand" in start(*tokens)
