"""Deletion of releases, and the finalizer that guards it. Pure.

A release has the finalizer from before its start until it has ended, so that one that has ended, or
has not begun, can be deleted at any time. One in progress stays, and writes nothing more, until a
person decides: state Rollback restores what stood in the clusters, state Abort leaves them as they
are.
"""

from captain.releases.decision import returns_after_end
from kubenode.api.v1alpha1 import Release

FINALIZER = "kubenode.io/release"


def is_finished(release: Release) -> bool:
    """Return whether the release is deleted, and nothing is left to do for it."""
    return release.metadata.deletion_timestamp is not None and not needs_finalizer(release)


def needs_finalizer(release: Release) -> bool:
    """Return whether the release must stay when it is deleted now."""
    phase = release.status.phase
    if phase is not None and phase.ended:
        return returns_after_end(release)
    return release.status.snapshot is not None or release.metadata.deletion_timestamp is None


def plan_finalizers(release: Release) -> list[str] | None:
    """Return the finalizers that the release must have, None if it has them.

    The API server accepts no new finalizer once an object is deleted.
    """
    existing = release.metadata.finalizers
    others = [each for each in existing if each != FINALIZER]
    wanted = [*others, FINALIZER] if needs_finalizer(release) else others
    unchanged = (FINALIZER in wanted) == (FINALIZER in existing)
    deleted = release.metadata.deletion_timestamp is not None
    return None if unchanged or (deleted and FINALIZER in wanted) else wanted
