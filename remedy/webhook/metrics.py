"""The metrics of the admission webhook. Labels come from closed sets and start at zero."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from remedy.webhook.review import RuleVerdict

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
ALLOWED, REFUSED, UNKNOWN, ACCEPTED = "allowed", "refused", "unknown", "accepted"


class RuleWebhookMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.answers = Counter(
            "kubenode_remedy_admissions",
            "Number of admission reviews of rules. unknown: denied because data was not"
            " available in time; accepted: above the limit, which the author acknowledged.",
            ["outcome"],
            registry=registry,
        )
        self.seconds = Histogram(
            "kubenode_remedy_admission_seconds",
            "Duration in seconds of an admission review.",
            buckets=SECONDS,
            registry=registry,
        )
        for outcome in (ALLOWED, REFUSED, UNKNOWN, ACCEPTED):
            self.answers.labels(outcome)

    def answered(self, verdict: RuleVerdict) -> None:
        refused = REFUSED if verdict.code == 422 else UNKNOWN
        allowed = ACCEPTED if verdict.accepted else ALLOWED
        self.answers.labels(allowed if verdict.allowed else refused).inc()


class SigningMetrics:
    """Metrics of what people write into jobs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._decisions = Counter(
            "kubenode_remedy_words",
            "Number of writes of people to jobs. signed: the user name was added;"
            " refused: the write was denied; nothing: there was no decision to sign.",
            ["outcome"],
            registry=registry,
        )
        for outcome in ("signed", REFUSED, "nothing"):
            self._decisions.labels(outcome)

    def signed(self, anything: bool) -> None:
        self._decisions.labels("signed" if anything else "nothing").inc()

    def refused(self) -> None:
        self._decisions.labels(REFUSED).inc()
