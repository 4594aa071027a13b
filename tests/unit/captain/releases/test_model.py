"""Releases against any history (support.release_machine): of components, and of rules that need
evidence.
"""

import os

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from support.release_machine import ReleaseMachine
from support.rule_machine import RuleMachine

EXAMPLES = int(os.environ.get("KUBENODE_MODEL_EXAMPLES", "200"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("machine", [ReleaseMachine, RuleMachine])
def test_nothing_passes_its_order_or_its_limits_and_every_release_ends(
    machine: type[RuleBasedStateMachine],
) -> None:
    """An example takes up to a second: to shrink one would pass the time limit of a test."""
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=25, deadline=None, phases=phases
        ),
    )
