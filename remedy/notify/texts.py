"""Title and body of a notification: our own templates, or a receiver's.

Templates are the operator's, what they show comes from hosts and clouds: it is cut, cleaned of
control characters, and never evaluated.
"""

import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

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
    """Why a template cannot be used; the text is for whoever wrote it."""


BROKEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What an expression within a template may raise."""
_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=False)


@dataclass(frozen=True, slots=True)
class NoticeTexts:
    """What one receiver is sent."""

    title: Template
    body: Template
    summary_title: Template
    summary_body: Template

    def of(self, notice: JobNotice, cluster: str) -> tuple[str, str]:
        """Title, one line, and body. Raises BadTemplate where a template asks what is not there."""
        summary = notice.kind == SUPPRESSED
        title, body = (
            (self.summary_title, self.summary_body) if summary else (self.title, self.body)
        )
        known = values(notice, cluster)
        return (
            " ".join(rendered(title, known).split())[:TITLE_LENGTH],
            rendered(body, known).strip()[:BODY_LENGTH],
        )


def texts(title: str | None = None, body: str | None = None) -> NoticeTexts:
    """Checked by rendering once. Raises BadTemplate."""
    made = NoticeTexts(
        compiled(title or TITLE),
        compiled(body or BODY),
        compiled(SUMMARY_TITLE),
        compiled(SUMMARY_BODY),
    )
    made.of(SAMPLE, "cluster")
    return made


def compiled(text: str) -> Template:
    """Raises BadTemplate."""
    try:
        return _ENVIRONMENT.from_string(text)
    except TemplateError as error:
        raise BadTemplate(f"not a template of Jinja2: {error}") from error


def rendered(template: Template, known: dict[str, Any]) -> str:
    """Raises BadTemplate."""
    try:
        return template.render(known)
    except (TemplateError, *BROKEN) as error:
        raise BadTemplate(f"cannot be rendered: {error}") from error


def values(notice: JobNotice, cluster: str) -> dict[str, Any]:
    """What templates may name, all of it always there."""
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
        "held": clean(notice.held),
        "explanation": clean(notice.explanation),
        "deadline": _spoken(notice.deadline) if notice.deadline is not None else "",
        "commands": list(notice.commands),
        "counts": dict(notice.counts),
    }


def _spoken(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def clean(text: str) -> str:
    """Without what could hide or forge a part of a message: controls, and marks of direction."""
    kept = (c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
    return "".join(kept)[:VALUE_LENGTH]


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
"""What a template is tried on when the settings are read."""
