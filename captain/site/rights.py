"""Rights of people at Captain's pages, as the API server knows them. It checks each write again."""

from dataclasses import dataclass

from kubenode.runtime.kube.access_reviews import AccessReviews
from kubenode.runtime.kube.identity import Identity, Right
from kubenode.runtime.site.people import IdentityProvider, Person, Via
from kubenode.runtime.site.visitors import SiteRights

CLUSTERS, RELEASES = "memberclusters", "releases"
APPROVALS = "releases/approval"


@dataclass(frozen=True, slots=True)
class CaptainRights(SiteRights):
    """steer: change the state of releases. approve: also approve their stages."""

    steer: bool = False
    approve: bool = False


async def read_captain_rights(person: Person, gate: IdentityProvider) -> CaptainRights:
    """Return the rights of the person. Raises Unverified."""
    if person.via is Via.LINK:
        return CaptainRights(True, True, True)
    who = person.identity
    read = await gate.may(who, "get", CLUSTERS) and await gate.may(who, "get", RELEASES)
    steer = await gate.may(who, "patch", RELEASES)
    return CaptainRights(read, steer, steer and await gate.may(who, "update", APPROVALS))


class ApiServerUsers:
    """Users and rights as the API server knows them."""

    def __init__(self, reviews: AccessReviews) -> None:
        self._reviews = reviews

    async def identify(self, token: str) -> Identity | None:
        return await self._reviews.user(token)

    async def may(self, who: Identity, verb: str, resource: str, name: str = "") -> bool:
        return await self._reviews.may(who, Right(verb, resource, name))
