"""Rights of people at the dashboard.

Reading needs `get defenderpolicies`; acting needs `patch` of defenderpolicies, remedyoperationjobs
or machinecomponentsets. The API server checks each write again.
"""

from dataclasses import dataclass

from kubenode.runtime.site.people import IdentityProvider, Person, Via
from kubenode.runtime.site.visitors import SiteRights

POLICIES, JOBS = "defenderpolicies", "remedyoperationjobs"
ROLLOUTS = "machinecomponentsets"


@dataclass(frozen=True, slots=True)
class Rights(SiteRights):
    """What a person may do here."""

    pause: bool = False
    decide: bool = False
    roll: bool = False


EVERYTHING = Rights(True, True, True, True)


async def rights_of(person: Person, gate: IdentityProvider) -> Rights:
    """Return the rights of the person. Raises Unverified."""
    if person.via is Via.LINK:
        return EVERYTHING
    who = person.identity
    return Rights(
        await gate.may(who, "get", POLICIES),
        await gate.may(who, "patch", POLICIES),
        await gate.may(who, "patch", JOBS),
        await gate.may(who, "patch", ROLLOUTS),
    )
