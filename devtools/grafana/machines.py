"""The dashboard of the Machine operator: machines, rollouts of components, and their versions."""

from devtools.grafana.board import (
    BAD,
    GREEN,
    NO_YES,
    YELLOW,
    Board,
    BoardRow,
    Panel,
    Query,
    stat,
)

SOME = ((None, GREEN), (1, YELLOW))
STOPPED = 'reason=~"AutoPaused|InspectionFailed|Inconclusive"'


def _machines(phase: str) -> str:
    return f'max(kubenode_machines{{phase="{phase}"}})'


def _of_sets(state: str) -> Query:
    return Query(f'max by (set) (kubenode_component_set_machines{{state="{state}"}})', "{{set}}")


NOW = BoardRow(
    "Now",
    (
        stat("Frozen", "Whether so much is wrong at once that nothing is changed.",
             "max(kubenode_machine_frozen)", unit="none", mapping=NO_YES),
        stat("Running", "Machines in service.", _machines("Running")),
        stat("Failed", "Machines that the operator does not try again.", _machines("Failed"),
             steps=BAD),
        stat("Unreachable", "Machines whose agents are silent.", _machines("Unreachable"),
             steps=SOME),
        stat("Rollouts that stopped", "By themselves; a person must look.",
             f"sum(max by (set) (kubenode_component_set_paused{{{STOPPED}}}))", steps=BAD),
        stat("Certificates about to end", "Of agents, which should have renewed them.",
             'max(kubenode_machine_certificates{state="ending"})', steps=BAD),
        stat("Certificates that ended", "Of agents, which are cut off.",
             'max(kubenode_machine_certificates{state="expired"})', steps=BAD),
        stat("Orphans", "Instances with our tag and no Machine.", "max(kubenode_machine_orphans)",
             steps=SOME),
    ),
)  # fmt: skip

ROLLOUTS = BoardRow(
    "Rollouts",
    (
        Panel(
            "Phase of each set",
            "Sets in a phase.",
            (
                Query(
                    "sum by (phase) (max by (set, phase) (kubenode_component_set_phase))",
                    "{{phase}}",
                ),
            ),
            stack=True,
        ),
        Panel("Updated", "Machines at the revision that is asked for.", (_of_sets("updated"),)),
        Panel(
            "Unavailable", "Machines out of service, for any reason.", (_of_sets("unavailable"),)
        ),
        Panel("Failed in the last batch", "At most 32 are told.", (_of_sets("failed"),)),
        Panel("Held", "Machines whose nodes a job repairs.", (_of_sets("held"),)),
        Panel(
            "Why sets start nothing",
            "Sets by the reason of their pause.",
            (
                Query(
                    "sum by (reason) (max by (set, reason) (kubenode_component_set_paused))",
                    "{{reason}}",
                ),
            ),
        ),
    ),
)

FLEET = BoardRow(
    "Machines and what they run",
    (
        Panel(
            "Machines by phase",
            "As the operator computes it.",
            (Query("max by (phase) (kubenode_machines)", "{{phase}}"),),
            stack=True,
        ),
        Panel(
            "Components by state",
            "Machines on which a component is in that state, all components together.",
            (
                Query(
                    "sum by (state) (max by (component, state) (kubenode_component_machines))",
                    "{{state}}",
                ),
            ),
            stack=True,
        ),
        Panel(
            "Versions",
            "Machines by installed version.",
            (
                Query(
                    "max by (component, version) (kubenode_component_versions)",
                    "{{component}} {{version}}",
                ),
            ),
        ),
        Panel(
            "Drift",
            "Machines on which something is not as it was written.",
            (Query("max by (component) (kubenode_component_drifting_machines)", "{{component}}"),),
        ),
        Panel(
            "Lacking",
            "Machines to which no set gives a component that others have.",
            (Query("max by (component) (kubenode_component_lacking_machines)", "{{component}}"),),
        ),
    ),
)

MACHINES = Board(
    "kubenode-machines",
    "KubeNode: Machines",
    "Machines, rollouts of components, and what runs where.",
    (NOW, ROLLOUTS, FLEET),
    (("Healing", "kubenode-healing"), ("Kube Defender", "kubenode-defender")),
)
