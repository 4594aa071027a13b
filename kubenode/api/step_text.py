"""Steps of a ladder in short form, for messages. Pure."""

from collections.abc import Iterable

from kubenode.api.v1alpha1.ladder import Step

LONGEST_STEPS = 256
GRANTED_VERDICT = "Kube Defender would have granted it"
NO_PERMIT_VERDICT = "it needs no permit"


def describe_step(step: Step) -> str:
    """Return a step such as `migrate` or `RestartUnit containerd.service`."""
    agent = step.agent
    if agent is None:
        return step.name
    return " ".join(filter(None, (agent.action, agent.unit, agent.check, agent.script)))


def describe_steps(steps: Iterable[Step]) -> str:
    """Return the steps in order, cut to LONGEST_STEPS characters."""
    text = ", ".join(describe_step(step) for step in steps)
    return text if len(text) <= LONGEST_STEPS else f"{text[: LONGEST_STEPS - 1]}…"


def would_have(steps: str, verdict: str) -> str:
    """Return what a rule in DryRun would have done, and the verdict on it.

    steps: see describe_steps; "" for a result of an earlier version, which has only the verdict.
    """
    return "; ".join(filter(None, (f"would have: {steps}" if steps else "", verdict)))
