"""Render view models as HTML. A model names its own template."""

from functools import partial
from typing import Any

from defender.dashboard.node_state import OF_LETTER, NodeDisplayState
from defender.decision.pauses import describe_scope
from kubenode.runtime.site.environment import site_environment
from kubenode.runtime.site.links import incident_url
from kubenode.runtime.site.parts import PagePart


class Renderer:
    """insight_url: address of Insight that pages of jobs link to, "" for none"""

    def __init__(self, insight_url: str = "") -> None:
        self._env = site_environment("defender.dashboard")
        self._env.filters |= {"scope": describe_scope}
        self._env.globals |= {
            "letter_of": letter_of,
            "states": list(NodeDisplayState),
            "kind_of": OF_LETTER,
            "incident_of": partial(incident_url, insight_url),
        }

    def part(self, model: PagePart, root: str) -> str:
        """Render one part. `root` is where the dashboard is mounted, for links."""
        return self._env.get_template(model.template).render(it=model, root=root).strip()

    def page(self, template: str, **given: Any) -> str:
        return self._env.get_template(template).render(**given)


def letter_of(state: str) -> str:
    return NodeDisplayState(state).letter
