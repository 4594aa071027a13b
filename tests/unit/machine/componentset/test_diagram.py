"""The page of a set's phases says what the table says."""

from devtools.component_set_states import FILE, main, page
from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase as P
from machine.componentset.phases import EDGES, WHEN


def test_the_page_is_up_to_date() -> None:
    assert FILE.read_text() == page()
    assert main(["--check"]) == 0


def test_what_is_drawn_is_allowed_and_every_phase_is_left() -> None:
    assert all(b in EDGES[a] for a, b in WHEN)
    assert all(EDGES[phase] for phase in P)
    assert not EDGES[P.COMPLETED] & {P.INSPECTING, P.BAKING}
