"""Title and body of a notification, from our own templates or a receiver's.

The operator writes the templates; the values come from hosts and clouds, so they are cut, cleaned
of control characters and never evaluated.
"""

import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from kubenode.runtime.site.links import incident_url
from remedy.notify.notice import SUPPRESSED, JobNotice

TITLE_LENGTH, BODY_LENGTH, VALUE_LENGTH = 200, 4096, 1024

TITLE = (
    "[{{ severity }}]{% if cluster %} {{ cluster }}{% endif %} node {{ node }}: "
    "{% if kind == 'Step' %}{{ happened }}{% else %}{{ phase }}{% endif %}"
)
BODY = """\
{{ happened }}

Node: {{ node }}
Fault: {{ faultClass }}
Rule: {{ rule or "none: a person started the job" }}
Job: {{ job }} ({{ phase }}, rung {{ rung }})
{% if deadline %}Planned for: {{ deadline }}
{% endif %}{% if held %}Held: {{ held }}
{% endif %}{% if incident %}History: {{ incident }}
{% endif %}{% if explanation %}
{{ explanation }}
{% endif %}
What you can do:
{% for command in commands %}  {{ command }}
{% endfor %}"""
SUMMARY_TITLE = "{% if cluster %}{{ cluster }}: {% endif %}{{ happened }}"
SUMMARY_BODY = """\
{{ happened }}{% for kind, count in counts.items() %}
  {{ kind }}: {{ count }}{% endfor %}
{% if node %}Nodes: {{ node }}
{% endif %}
What you can do:
{% for command in commands %}  {{ command }}
{% endfor %}"""


class BadTemplate(Exception):
    """A template cannot be used; the text is for its author."""


BROKEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions that an expression within a template may raise."""
_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=False)


@dataclass(frozen=True, slots=True)
class NoticeTexts:
    """Compiled templates of one receiver.

    insight_url: address of Insight, "" for none
    """

    title: Template
    body: Template
    summary_title: Template
    summary_body: Template
    insight_url: str = ""

    def of(self, notice: JobNotice, cluster: str) -> tuple[str, str]:
        """Return title, on one line, and body. Raises BadTemplate if a template uses an unknown
        value.
        """
        summary = notice.kind == SUPPRESSED
        title, body = (
            (self.summary_title, self.summary_body) if summary else (self.title, self.body)
        )
        known = values(notice, cluster, self.insight_url)
        return (
            " ".join(rendered(title, known).split())[:TITLE_LENGTH],
            rendered(body, known).strip()[:BODY_LENGTH],
        )


def texts(title: str | None = None, body: str | None = None, insight_url: str = "") -> NoticeTexts:
    """Compile the templates and check them by rendering once. Raises BadTemplate."""
    made = NoticeTexts(
        compiled(title or TITLE),
        compiled(body or BODY),
        compiled(SUMMARY_TITLE),
        compiled(SUMMARY_BODY),
        insight_url,
    )
    made.of(SAMPLE, "cluster")
    return made


def compiled(text: str) -> Template:
    """Compile a template. Raises BadTemplate."""
    try:
        return _ENVIRONMENT.from_string(text)
    except TemplateError as error:
        raise BadTemplate(f"not a template of Jinja2: {error}") from error


def rendered(template: Template, known: dict[str, Any]) -> str:
    """Render a template. Raises BadTemplate."""
    try:
        return template.render(known)
    except (TemplateError, *BROKEN) as error:
        raise BadTemplate(f"cannot be rendered: {error}") from error


def values(notice: JobNotice, cluster: str, insight_url: str = "") -> dict[str, Any]:
    """Return all values that templates may use; each always exists."""
    return {
        "id": notice.id,
        "kind": notice.kind,
        "at": _spoken(notice.at),
        "cluster": cluster,
        "severity": str(notice.severity),
        "node": clean(notice.node),
        "job": clean(notice.job),
        "rule": clean(notice.rule),
        "faultClass": clean(notice.fault_class),
        "mode": notice.mode,
        "phase": notice.phase,
        "rung": clean(notice.rung),
        "happened": clean(notice.happened),
        "held": clean(notice.hold_message),
        "explanation": clean(notice.explanation),
        "deadline": _spoken(notice.deadline) if notice.deadline is not None else "",
        "commands": list(notice.commands),
        "incident": incident_url(insight_url, notice.job_uid),
        "counts": dict(notice.counts),
    }


def _spoken(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def clean(text: str) -> str:
    """Remove control and direction characters, which could hide or forge a part of a message."""
    printable = (
        c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs")
    )
    return "".join(printable)[:VALUE_LENGTH]


SAMPLE = JobNotice(
    id="sample",
    kind="NeedsHuman",
    at=datetime.fromisoformat("2026-01-01T00:00:00+00:00"),
    job="n1-0123456789",
    node="n1",
    rule="rule",
    phase="NeedsHuman",
    rung="reboot",
    happened="nothing",
    commands=("kubenode explain job n1-0123456789",),
)
"""Notice that templates are rendered with when the settings are read."""
