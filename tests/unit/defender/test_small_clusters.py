"""F11: what few nodes get follows one documented table, and the table says what happens."""

import pytest

from defender.decision.control import RiskControl
from defender.decision.policies import BUILT_IN
from devtools.small_clusters import FILE, LARGEST, OTHERS, SETTINGS, ClusterSetting, answer, page
from kubenode.api.v1alpha1 import Disruption

REFUSED = "MinHealthy"
EVERY = [(nodes, failed) for nodes in range(1, LARGEST + 1) for failed in range(nodes + 1)]
"""All sizes with all numbers of unhealthy nodes."""


def by_hand(title: str, nodes: int, failed: int) -> str:
    """The default policy's arithmetic, worked out in another way than the limits do."""
    stay = nodes - max(failed, 1)
    all_others = stay == nodes - 1
    match title:
        case "The whole cluster":
            fine = all_others if nodes <= 5 else stay >= int(nodes * 0.8)
        case "A zone":
            fine = all_others if nodes <= 5 else stay >= int(nodes * 0.6)
        case "A rack":
            fine = True
        case "A pool":
            fine = stay >= 2 and (all_others or nodes > 5)
        case "The control plane":
            fine = all_others
        case _:
            fine = all_others or nodes > 5
    return "1" if fine else REFUSED


def test_f11_the_page_of_answers_is_up_to_date() -> None:
    assert FILE.read_text() == page(), "run python -m devtools.small_clusters"


WHOLE = [setting for setting in SETTINGS if not setting.others]


@pytest.mark.parametrize("setting", WHOLE, ids=lambda setting: setting.title)
def test_f11_small_clusters_get_the_documented_answer(setting: ClusterSetting) -> None:
    control = RiskControl()
    for nodes, failed in EVERY:
        got = answer(setting, control, nodes, failed)
        assert got == by_hand(setting.title, nodes, failed), (nodes, failed)


def test_f11_small_groups_of_a_large_cluster_get_the_documented_answer() -> None:
    text = FILE.read_text()
    for setting in SETTINGS:
        if not setting.others:
            continue
        table = text.split(f"## {setting.title}\n")[1].split("\n## ")[0]
        rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ")]
        for nodes, failed in EVERY:
            cell = rows[nodes + 1][failed + 1].strip()
            assert cell == by_hand(setting.title, nodes, failed), (setting.title, nodes, failed)


def test_the_table_covers_every_scope_of_the_default_policy() -> None:
    assert BUILT_IN.spec is not None
    titles = {setting.title for setting in SETTINGS}
    assert len(titles) == len(BUILT_IN.spec.limits)
    assert {s.class_ for s in SETTINGS} == {Disruption.NODE, Disruption.HOST}
    assert OTHERS * 0.02 >= 2, "the cluster's own limit must not decide beside a small group"
