"""Whether the displayed data is current, shown on every page."""

from collections.abc import Iterator

from captain.site.scene import CaptainScene
from kubenode.runtime.site.parts import Warn


def list_doubts(scene: CaptainScene) -> Iterator[Warn]:
    """Yield what is wrong with the data, nothing while all of it is current."""
    if not scene.loaded:
        text = "Captain is still reading its cluster: some of it is missing below."
        yield Warn("loading", text, "It takes seconds.")
    elif scene.late:
        text = f"The API server has not confirmed these for a minute: {', '.join(scene.late)}."
        yield Warn("late", text, "What you see may be old.")
