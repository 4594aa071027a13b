"""RenewCertificate: makes the kubelet renew its own client certificate.

A kubelet renews its certificate while it is valid. An expired one cannot be renewed: once it is set
aside, the kubelet requests a new one with its bootstrap credentials. A restart makes the kubelet
check now. A certificate that expires later proves success.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from agent.actions.repair import STANDS, Repair, ports_of
from agent.host import Contraindicated, UnitVerb
from agent.host.ports import Certificate
from agent.outcome import StepOutcome, done, failed
from agent.request import StepRequest

if TYPE_CHECKING:
    from agent.actions import Bench

KUBELET = "kubelet.service"
RENEWABLE_SHARE = 0.3
"""A kubelet renews when 10 to 30 % of the certificate's life remain, and not before."""
POLL_SECONDS = 1.0


class RenewCertificate(Repair):
    name = "RenewCertificate"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        ports, now = ports_of(bench), bench.clock.now()
        cert = await ports.kubelet_certificate.read()
        if cert is None:
            raise Contraindicated(
                "RenewCertificate: the kubelet here has no certificate that it renews itself"
            )
        if not (await ports.time.state()).synchronised:
            raise Contraindicated(
                "RenewCertificate: the clock is not synchronised, and certificates are judged by"
                " it: SyncTime comes first"
            )
        if _remaining_share(cert, now) > RENEWABLE_SHARE:
            raise Contraindicated(
                f"RenewCertificate: it is valid until {cert.not_after.isoformat()}, too long for"
                " the kubelet to renew it"
            )
        expired = now >= cert.not_after
        if expired and not await ports.kubelet_certificate.can_bootstrap():
            raise Contraindicated(
                f"RenewCertificate: expired at {cert.not_after.isoformat()}, and there is no"
                " bootstrap kubeconfig: give the host one with a new token"
            )
        return {"until": cert.not_after.isoformat(), "expired": "yes" if expired else "no"}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        own, clock = ports_of(bench).kubelet_certificate, bench.clock
        end = clock.monotonic() + limit
        if before["expired"] == "yes":
            await own.set_aside()
        await bench.host.reset_failed(KUBELET)
        await bench.host.unit_job(UnitVerb.RESTART, KUBELET, limit)
        while (cert := await self._newer(before, bench)) is None:
            if clock.monotonic() + POLL_SECONDS > end:
                if before["expired"] == "yes":
                    await own.put_back()
                return failed(
                    f"RenewCertificate: {limit:.0f} s after the kubelet's restart there is no new"
                    f" certificate; look at pending CSRs. The old one ends {before['until']}"
                )
            await clock.sleep(POLL_SECONDS)
        return done(f"RenewCertificate: valid until {cert.not_after.isoformat()} now")

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        cert = await self._newer(before, bench)
        if cert is None:
            return None
        return done(f"RenewCertificate: valid until {cert.not_after.isoformat()} now{STANDS}")

    async def _newer(self, before: Mapping[str, str], bench: "Bench") -> Certificate | None:
        cert = await ports_of(bench).kubelet_certificate.read()
        was = datetime.fromisoformat(before["until"])
        return cert if cert is not None and cert.not_after > was else None


def _remaining_share(certificate: Certificate, now: datetime) -> float:
    """Return the share of the certificate's life that remains; 0 if it has expired."""
    life = certificate.not_after - certificate.not_before
    remaining = certificate.not_after - now
    return max(0.0, remaining / life) if life else 0.0
