"""Whether the displayed data is current, shown on every page. Pure."""

from defender.dashboard.scene import Scene
from kubenode.runtime.site.parts import Warn


def freshness(scene: Scene) -> list[Warn]:
    """Return what is wrong with the data, empty while all of it is current."""
    warnings = []
    if not scene.loaded:
        text = "Kube Defender is still reading the cluster: some of it is missing below."
        warnings.append(Warn("loading", text, "It takes seconds; nothing is granted until then."))
    elif scene.late:
        text = f"The API server has not confirmed these for a minute: {', '.join(scene.late)}."
        warnings.append(
            Warn("late", text, "What you see may be old. Nothing is granted meanwhile.")
        )
    if scene.ready and scene.loaded:
        warnings.append(
            Warn(
                "ready",
                f"This Kube Defender answers no questions now: {scene.ready}.",
                "What waits goes on waiting, and nothing new is disrupted.",
            )
        )
    return warnings
