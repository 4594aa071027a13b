"""Alert rules: each fires when it should and not when it should not, and each has its runbook."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from ruamel.yaml import YAML
from support.prometheus import Prometheus, metrics_in, promtool

from devtools.metrics_reference.bounds import bound_of
from devtools.metrics_reference.registry import registered
from remedy.hostdoctor.pollers.metrics import PollerMetrics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "charts" / "kubenode" / "alerts").glob("*.yaml"))
BOOKS = ROOT / "docs" / "runbooks" / "alerts"
SEVERITIES = {"critical", "warning", "info"}


def rules(file: Path) -> dict[str, dict[str, Any]]:
    groups = YAML(typ="safe").load(file.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


RULES = {name: rule for file in FILES for name, rule in rules(file).items()}
FILE_OF = {name: file for file in FILES for name in rules(file)}
Series = dict[str, str]
"""Series to values, one for each interval, as promtool writes them: `0+5x10` rises by 5."""


@dataclass(frozen=True)
class Case:
    """fires   series with which the alert fires at `at`
    silent  series with which nothing fires then
    labels  of the alert, beside its severity
    every   how far apart values are: rules that look at days are asked more seldom
    """

    at: str
    fires: Series
    silent: Series
    labels: tuple[dict[str, str], ...] = ({},)
    every: str = "1m"


D = "kubenode_defender"
DAY = 86_400
EXPIRY = 'kubenode_captain_first_expiry_timestamp_seconds{pod="%s"}'
BREAKER = f'{D}_breaker_state{{policy="p",scope="zone=a",state="Open",pod="%s"}}'
BREAKERS = {BREAKER % "x": "0 0 1x200", BREAKER % "y": "0 0 1x200"}
BUCKETS = (
    f'{D}_ask_seconds_bucket{{le="2.5"}}',
    f'{D}_ask_seconds_bucket{{le="5"}}',
    f'{D}_ask_seconds_bucket{{le="+Inf"}}',
)
WAITING = f'{D}_waiting_oldest_seconds{{reason="%s"}}'
HELD = 'kubenode_job_held_oldest_seconds{reason="%s"}'
NOT_CORDONED = 'kubenode_job_waiting_oldest_seconds{reason="%s"}'
REQUESTS = 'kubenode_client_requests_total{code="%s",client="main",method="GET"}'
REFUSED = 'kubenode_hostdoctor_refusals_total{endpoint="alertmanager",why="%s"}'
LOOKS = 'kubenode_hostdoctor_looks_total{source="aws",result="%s"}'
HEARD = "kubenode_hostdoctor_watchdog_heard_timestamp_seconds"
DELIVERED = 'kubenode_hostdoctor_deliveries_total{endpoint="alertmanager"}'
PAUSED = 'kubenode_component_set_paused{set="s",reason="%s"}'
COMPONENTS = 'kubenode_component_machines{component="c",state="%s"}'
CERTIFICATES = 'kubenode_machine_certificates{state="%s"}'
SIGNAL, DECIDE = "kubenode_remedy_signal_seconds", "kubenode_remedy_decide_seconds"
HEALED = 'kubenode_job_seconds_bucket{phase="Succeeded",le="3600.0"}'
ENDED = 'kubenode_job_seconds_count{phase="%s"}'


def late(metric: str, le: str, good: str, all_: str) -> Series:
    """A histogram of which those below `le` are good."""
    return {f'{metric}_bucket{{le="{le}"}}': good, f"{metric}_count": all_}


CASES = {
    "KubeNodeDetectBurnsFast": Case(
        "70m",
        late(SIGNAL, "10.0", "0+4x80", "0+5x80"),
        late(SIGNAL, "10.0", "0+9x80", "0+10x80"),
    ),
    "KubeNodeDetectBurnsSlow": Case(
        "400m",
        late(SIGNAL, "10.0", "0+9x50", "0+10x50"),
        late(SIGNAL, "10.0", "0x50", "0x38 3x10"),
        every="10m",
    ),
    "KubeNodeDecideBurnsFast": Case(
        "70m",
        late(DECIDE, "1.0", "0+4x80", "0+5x80"),
        late(DECIDE, "1.0", "0+4x55 220+5x25", "0+5x80"),
    ),
    "KubeNodeDecideBurnsSlow": Case(
        "400m",
        late(DECIDE, "1.0", "0+9x50", "0+10x50"),
        late(DECIDE, "1.0", "0+99x50", "0+100x50"),
        every="10m",
    ),
    "KubeNodeHealBurnsFast": Case(
        "400m",
        {HEALED: "0+1x50", ENDED % "Succeeded": "0+2x50", ENDED % "Failed": "0+3x50"},
        {HEALED: "0+2x50", ENDED % "Succeeded": "0+2x50", ENDED % "Failed": "0+1x50"},
        every="10m",
    ),
    "KubeNodeHealBurnsSlow": Case(
        "80h",
        {HEALED: "0+4x170", ENDED % "Succeeded": "0+4x170", ENDED % "Failed": "0+1x170"},
        {HEALED: "0x170", ENDED % "Succeeded": "0x158 1x10", ENDED % "Failed": "0x158 2x10"},
        every="30m",
    ),
    "KubeDefenderDown": Case(
        "10m",
        {f'{D}_ready{{pod="x"}}': "1 1 0x20", f'{D}_ready{{pod="y"}}': "0x20"},
        {f'{D}_ready{{pod="x"}}': "1x20", f'{D}_ready{{pod="y"}}': "0x20"},
    ),
    "KubeDefenderFrozen": Case("5m", {f"{D}_frozen": "0 1x20"}, {f"{D}_frozen": "0x20"}),
    "KubeDefenderBreakerOpen": Case(
        "5m",
        BREAKERS,
        {f'{D}_breaker_state{{policy="p",scope="zone=a",state="HalfOpen"}}': "1x20"},
        ({"policy": "p", "scope": "zone=a"},),
    ),
    "KubeDefenderBreakerOpenLong": Case(
        "63m",
        BREAKERS,
        {BREAKER % "x": "1x50 0x20"},
        ({"policy": "p", "scope": "zone=a"},),
    ),
    "KubeDefenderCommonCause": Case(
        "5m",
        {f'{D}_common_causes{{policy="p"}}': "0 1x20"},
        {f'{D}_common_causes{{policy="p"}}': "0x20"},
        ({"policy": "p"},),
    ),
    "KubeDefenderPermitOverdue": Case(
        "20m",
        {f'{D}_permits{{state="Overdue"}}': "0 2x30"},
        {f'{D}_permits{{state="Granted"}}': "9x30", f'{D}_permits{{state="Overdue"}}': "1x10 0x30"},
    ),
    "KubeDefenderPermitUnreadable": Case(
        "10m",
        {f'{D}_unreadable_permits{{state="open"}}': "0 1x20"},
        {
            f'{D}_unreadable_permits{{state="open"}}': "0x20",
            f'{D}_unreadable_permits{{state="released"}}': "3x20",
        },
        ({"state": "open"},),
    ),
    "KubeDefenderFleetClusterSilent": Case(
        "10m",
        {f'{D}_fleet_silent{{group="g",cluster="c"}}': "1x20"},
        {f'{D}_fleet_silent{{group="g",cluster="c"}}': "1x2 _x20"},
        ({"group": "g", "cluster": "c"},),
    ),
    "KubeDefenderLongWait": Case(
        "90m",
        {WAITING % "RateLimit": "0+60x100"},
        {WAITING % "Paused": "0+60x100", WAITING % "RateLimit": "3000x100"},
        ({"reason": "RateLimit"},),
    ),
    "KubeDefenderPausedLong": Case(
        "25h",
        {f'{D}_pauses{{policy="p"}}': "1x1600"},
        {f'{D}_pauses{{policy="p"}}': "1x1000 0 1x600"},
        ({"policy": "p"},),
    ),
    "KubeDefenderPolicyProblem": Case(
        "10m",
        {f'{D}_policy_problems{{policy="p"}}': "1x20"},
        {f'{D}_policy_problems{{policy="p"}}': "0x20"},
        ({"policy": "p"},),
    ),
    "KubeDefenderStoreDown": Case(
        "5m",
        {f'{D}_store_up{{store="redis"}}': "1 0x20"},
        {f'{D}_store_up{{store="redis"}}': "1x20", f'{D}_store_up{{store="permits"}}': "0x20"},
        ({"store": "redis"},),
    ),
    "KubeDefenderUnwritten": Case(
        "20m",
        {f"{D}_unwritten_total": "0+2x30"},
        {f"{D}_unwritten_total": "0x10 2x20"},
    ),
    "KubeDefenderSlow": Case(
        "30m",
        dict(zip(BUCKETS, ("0x40", "0+60x40", "0+60x40"), strict=True)),
        dict(zip(BUCKETS, ("0+60x40", "0+60x40", "0+60x40"), strict=True))
        | {f'{D}_ask_seconds_bucket{{le="0.1"}}': "0+60x40"},
    ),
    "KubeDefenderMissedDeadline": Case(
        "10m",
        {f'{D}_missed_deadlines_total{{policy="p"}}': "0 0 1x20"},
        {f'{D}_missed_deadlines_total{{policy="p"}}': "3x20"},
        ({"policy": "p"},),
    ),
    "KubeDefenderDisplacedPods": Case(
        "40m",
        {f'{D}_waiting{{reason="DisplacedPods"}}': "0 3x60"},
        {f'{D}_waiting{{reason="DisplacedPods"}}': "3x20 0 3x30"},
    ),
    "KubeDefenderGuardErrors": Case(
        "20m",
        {f'{D}_guard_total{{act="delete",outcome="error"}}': "0+2x30"},
        {f'{D}_guard_total{{act="delete",outcome="audited"}}': "0+2x30"},
    ),
    "KubeNodeNobodyLeads": Case(
        "10m",
        {'kubenode_lease_leading{lease="all",pod="x"}': "0x20"},
        {
            'kubenode_lease_leading{lease="all",pod="x"}': "0x20",
            'kubenode_lease_leading{lease="all",pod="y"}': "1x20",
        },
        ({"lease": "all"},),
    ),
    "KubeNodeEngineDown": Case(
        "10m", {"kubenode_engine_up": "0x20"}, {"kubenode_engine_up": "1x20"}
    ),
    "KubeNodeEnginesDisagree": Case(
        "10m",
        {"kubenode_engine_disagreements_total": "0 0 1x20"},
        {"kubenode_engine_disagreements_total": "4x20"},
    ),
    "KubeNodeRuleQuarantined": Case(
        "10m",
        {"kubenode_engine_quarantined_rules": "1x20"},
        {"kubenode_engine_quarantined_rules": "0x20"},
    ),
    "KubeNodeJobNeedsHuman": Case(
        "20m",
        {f'{D}_jobs{{phase="NeedsHuman"}}': "1x30"},
        {f'{D}_jobs{{phase="Running"}}': "1x30", f'{D}_jobs{{phase="NeedsHuman"}}': "0x30"},
    ),
    "KubeNodeJobHeldLong": Case(
        "40m",
        {HELD % "GuardTrue": "0+60x60"},
        {HELD % "Paused": "0+60x60", HELD % "GuardTrue": "0+60x29 0x30"},
        ({"reason": "GuardTrue"},),
    ),
    "KubeNodeJobWaitsLong": Case(
        "40m",
        {NOT_CORDONED % "NoVerdict": "0+60x60"},
        {
            NOT_CORDONED % "Paused": "0+60x60",
            NOT_CORDONED % "StartupGrace": "0+60x60",
            NOT_CORDONED % "NoVerdict": "0+60x29 0x30",
        },
        ({"reason": "NoVerdict"},),
    ),
    "KubeNodeFaultUnattended": Case(
        "10m",
        {"kubenode_remedy_unattended_nodes": "1x20"},
        {"kubenode_remedy_unattended_nodes": "0x20"},
    ),
    "KubeNodeJobAwaitsApproval": Case(
        "70m",
        {f'{D}_jobs{{phase="AwaitingApproval"}}': "1x90"},
        {f'{D}_jobs{{phase="AwaitingApproval"}}': "1x30 0 1x60"},
    ),
    "KubeNodeJobsFail": Case(
        "40m",
        {'kubenode_job_moves_total{phase="Failed"}': "0+1x60"},
        {'kubenode_job_moves_total{phase="Succeeded"}': "0+9x60"},
    ),
    "KubeNodeStaleData": Case(
        "20m",
        {'kubenode_informer_age_seconds{resource="nodes"}': "0+60x30"},
        {
            'kubenode_informer_age_seconds{resource="nodes",pod="x"}': "0+60x30",
            'kubenode_informer_age_seconds{resource="nodes",pod="y"}': "5x30",
        },
        ({"resource": "nodes"},),
    ),
    "KubeNodeApiErrors": Case(
        "30m",
        {REQUESTS % "5xx": "0+30x40", REQUESTS % "2xx": "0+60x40"},
        {REQUESTS % "5xx": "0+3x40", REQUESTS % "404": "0+60x40"},
    ),
    "KubeNodeAuditLinesLost": Case(
        "10m",
        {'kubenode_audit_lines_total{outcome="lost"}': "0 0 5x20"},
        {
            'kubenode_audit_lines_total{outcome="written"}': "0+9x20",
            'kubenode_audit_lines_total{outcome="lost"}': "5x20",
        },
    ),
    "KubeNodeDeliveryUnauthorized": Case(
        "15m",
        {REFUSED % "unauthorized": "0 0 0+1x20"},
        {REFUSED % "unauthorized": "7x20", REFUSED % "malformed": "0+1x20"},
        ({"endpoint": "alertmanager"},),
    ),
    "KubeNodeDeliveriesNotStored": Case(
        "30m",
        {REFUSED % "not_stored": "0+1x40"},
        {REFUSED % "not_stored": "0 0 0 5x40", REFUSED % "unauthorized": "0x40"},
        ({"endpoint": "alertmanager"},),
    ),
    "KubeNodeEventSourceFails": Case(
        "60m",
        {LOOKS % "denied": "0+1x90", LOOKS % "ok": "0+1x20 20x90"},
        {LOOKS % "denied": "0+1x90", LOOKS % "ok": "0+1x90"},
        ({"source": "aws"},),
    ),
    "KubeNodeWatchdogNotHeard": Case(
        "30m", {HEARD: "60x40"}, {HEARD: "0+60x40", DELIVERED: "9x40"}
    ),
    "KubeNodeRolloutStopped": Case(
        "5m",
        {PAUSED % "AutoPaused": "0 1x20"},
        {PAUSED % "AutoPaused": "0x20", PAUSED % "User": "1x20"},
        ({"set": "s", "reason": "AutoPaused"},),
    ),
    "KubeNodeMachineFailed": Case(
        "10m",
        {'kubenode_machines{phase="Failed"}': "1x20"},
        {'kubenode_machines{phase="Running"}': "9x20", 'kubenode_machines{phase="Failed"}': "0x20"},
    ),
    "KubeNodeMachinesFrozen": Case(
        "10m",
        {"kubenode_machine_frozen": "1x20"},
        {"kubenode_machine_frozen": "1x3 0x20"},
    ),
    "KubeNodeRestoreFrozen": Case(
        "5m",
        {"kubenode_restore_frozen": "1x20"},
        {"kubenode_restore_frozen": "0x20"},
    ),
    "KubeNodeOrphans": Case(
        "40m",
        {"kubenode_machine_orphans": "2x60"},
        {"kubenode_machine_orphans": "2x5 0x60"},
    ),
    "KubeNodeDriftFight": Case(
        "10m",
        {COMPONENTS % "DriftFight": "1x20"},
        {COMPONENTS % "Drifted": "1x20"},
        ({"component": "c"},),
    ),
    "KubeNodeAgentCertificateEnding": Case(
        "40m", {CERTIFICATES % "ending": "1x60"}, {CERTIFICATES % "live": "9x60"}
    ),
    "KubeNodeAgentCertificateExpired": Case(
        "20m", {CERTIFICATES % "expired": "1x60"}, {CERTIFICATES % "none": "9x60"}
    ),
    "KubeNodeMemberCredentialsEnding": Case(
        "2h",
        {EXPIRY % "new": f"{14 * DAY + 3500}x200", EXPIRY % "none": "0x200"},
        {EXPIRY % "new": f"{14 * DAY + 7300}x200", EXPIRY % "none": "0x200"},
    ),
    "KubeNodeMemberCredentialsExpired": Case(
        "2h", {EXPIRY % "new": "6600x200", EXPIRY % "none": "0x200"}, {EXPIRY % "new": "7300x200"}
    ),
}
ENDING = re.compile(r"_(bucket|sum|count)$")
OF_SOURCES = {"kubenode_hostdoctor_looks_total"}
"""Metrics that exist where sources of events are configured; none of this test."""
OF_FLEETS = {f"{D}_fleet_silent"}
"""Metrics that have series only while a cluster of a fleet is silent; this test has no fleet."""
OF_CAPTAIN = {"kubenode_captain_first_expiry_timestamp_seconds"}
"""Metrics of Captain, which does not run in this test."""
MADE_LATER = {f"{D}_ask_seconds_bucket"} | OF_SOURCES | OF_FLEETS | OF_CAPTAIN
"""Metrics of alerts that have no series yet in the cluster of this test."""


def test_every_alert_has_its_case() -> None:
    assert set(CASES) == set(RULES)


def test_promtool_accepts_the_files() -> None:
    done = promtool("check", "rules", "--lint-fatal", *FILES)
    assert done.returncode == 0, done.stdout + done.stderr


def told(folder: Path, name: str, series: Series) -> str:
    """What promtool says to the claim that nothing fires, "" if that is so."""
    case = CASES[name]
    test = {
        "rule_files": [str(FILE_OF[name])],
        "evaluation_interval": case.every,
        "tests": [
            {
                "interval": case.every,
                "input_series": [{"series": k, "values": v} for k, v in series.items()],
                "alert_rule_test": [{"eval_time": case.at, "alertname": name, "exp_alerts": []}],
            }
        ],
    }
    file = folder / f"{name}.test.json"
    file.write_text(json.dumps(test))
    done = promtool("test", "rules", file)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("name", CASES)
class TestAlert:
    def test_it_fires_when_it_should(self, name: str, tmp_path: Path) -> None:
        got = told(tmp_path, name, CASES[name].fires)
        assert f'alertname="{name}"' in got, got or "nothing fired"
        for labels in CASES[name].labels:
            for key, value in labels.items():
                assert f'{key}="{value}"' in got, got

    def test_it_is_silent_when_it_should_be(self, name: str, tmp_path: Path) -> None:
        assert told(tmp_path, name, CASES[name].silent) == ""

    def test_its_words_are_filled_in(self, name: str, tmp_path: Path) -> None:
        got = told(tmp_path, name, CASES[name].fires)
        for trouble in ("{{", "<no value>", "error executing template", "error parsing"):
            assert trouble not in got

    def test_it_has_a_severity_words_and_a_runbook(self, name: str) -> None:
        rule = RULES[name]
        assert rule["labels"]["severity"] in SEVERITIES
        notes = rule["annotations"]
        assert len(notes["summary"]) < 80
        assert notes["description"].endswith(".")
        book = ROOT / notes["runbook_url"]
        assert book.parent == BOOKS
        text = book.read_text()
        for heading in ("## What it means", "## How bad it is", "## What to do", "## How to check"):
            assert heading in text, book
        assert name in text

    def test_real_prometheus_runs_it_over_metrics_that_exist(self, world: Any, name: str) -> None:
        prometheus: Prometheus = world.prometheus
        expr = RULES[name]["expr"]
        prometheus.query(expr)
        assert metrics_in(expr) <= prometheus.names() | MADE_LATER


def test_the_watchdog_that_was_never_heard_is_missed_where_alerts_are_delivered(
    tmp_path: Path,
) -> None:
    name = "KubeNodeWatchdogNotHeard"
    assert f'alertname="{name}"' in told(tmp_path, name, {HEARD: "0x40", DELIVERED: "9x40"})
    assert told(tmp_path, name, {HEARD: "0x40", DELIVERED: "0x40"}) == ""


def test_what_sources_count_begins_with_their_configuration() -> None:
    registry = CollectorRegistry()
    PollerMetrics(registry).announce("aws", queue=False)
    page = generate_latest(registry).decode()
    assert all(f'{name}{{result="ok",source="aws"}} 0.0' in page for name in OF_SOURCES)


def test_metrics_without_series_in_this_test_are_registered() -> None:
    assert {metric.name for metric in registered()} >= OF_FLEETS | OF_CAPTAIN


def recorded(folder: Path, series: Series, at: str, expr: str, value: float | None) -> str:
    """What promtool says to the claim that `expr` is `value` then, None for nothing; "" if so."""
    samples = [] if value is None else [{"labels": "{}", "value": value}]
    test = {
        "rule_files": [str(file) for file in FILES],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": k, "values": v} for k, v in series.items()],
                "promql_expr_test": [{"expr": expr, "eval_time": at, "exp_samples": samples}],
            }
        ],
    }
    file = folder / "recorded.test.json"
    file.write_text(json.dumps(test))
    done = promtool("test", "rules", file)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        ('round(sum(kubenode:slo_errors:ratio_rate1h{slo="detect"}), 0.001)', 0.1),
        ('round(sum(kubenode:slo_budget_left:ratio_rate30d{slo="detect"}), 0.001)', -9.0),
        ('sum(kubenode:slo_objective:ratio{slo="heal"})', 0.95),
        ('kubenode:slo_errors:ratio_rate1h{slo="heal"}', None),
    ],
)
def test_objectives_are_recorded_and_what_did_not_happen_is_no_error(
    expr: str, value: float | None, tmp_path: Path
) -> None:
    series = late(SIGNAL, "10.0", "0+9x80", "0+10x80") | {ENDED % "Failed": "0x80", HEALED: "0x80"}
    assert recorded(tmp_path, series, "70m", expr, value) == ""


def test_every_runbook_is_of_an_alert() -> None:
    named = {Path(rule["annotations"]["runbook_url"]).name for rule in RULES.values()}
    assert {path.name for path in BOOKS.glob("*.md")} == named


def test_what_a_program_serves_is_in_the_reference_with_its_labels(world: Any) -> None:
    known = {metric.name: metric for metric in registered()}
    served = world.prometheus.query('{__name__=~"kubenode_.+"}')
    assert len(served) > 500
    for labels, _ in served:
        name = ENDING.sub("", labels.pop("__name__"))
        metric = known[name]
        own = labels.keys() - {"instance", "job", "le"}
        assert own == set(metric.labels), name
        for label in own:
            closed = bound_of(metric, label).values
            assert not closed or labels[label] in closed, (name, label)


def test_a_fleet_that_heals_fires_nothing(world: Any) -> None:
    """One node is not ready, one job under way: nothing for a person."""
    assert world.prometheus.alerts() == {}
