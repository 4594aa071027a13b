"""Certificates that expire soon, have expired or are not valid yet (as on a host with a wrong
clock).

Soon means within the configured days and within the last tenth of the certificate's life. Kubelets
renew after 70 to 90 % of it, so a certificate for one day is not late two hours before its end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from agent.detectors.checks import Finding, Findings
from agent.host.files import HostRoot
from agent.identity.dates import dates
from kubenode.runtime.clock import Clock

CONDITION = "CertificateExpiring"
MOST = 1 << 20
"""Bytes of a file that are read."""
LATE = 0.1
BEGIN = b"-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Life:
    """Validity of one certificate. file: its file, for people."""

    file: str
    begins: datetime
    ends: datetime


class Certificates:
    """Checks certificates. files: paths with * and ? as in a shell; missing ones are ignored."""

    def __init__(self, files: Sequence[str], days: float, clock: Clock, root: str = "/") -> None:
        self._patterns, self._days, self._clock = tuple(files), days, clock
        self._files = HostRoot(root)

    def inspect(self) -> Findings:
        """Check the files. Raises OSError, and ValueError for an unreadable certificate."""
        lives = []
        for pattern in self._patterns:
            for path in self._files.glob(pattern):
                lives += read(path, self._files)
        return {CONDITION: judge(lives, self._clock.now(), timedelta(days=self._days))}


def read(path: str, files: HostRoot) -> list[Life]:
    """Return the validity of a file's first certificate; the others are its chain."""
    with open(files.path(path), "rb") as file:
        content = file.read(MOST)
    if BEGIN not in content:
        return []  # a file with a key only
    try:
        begins, ends = dates(content)
    except ValueError as error:
        raise ValueError(f"{path}: no certificate can be read: {error}") from error
    return [Life(path, begins, ends)]


def judge(lives: Sequence[Life], now: datetime, soon: timedelta) -> Finding:
    """Return the most serious finding: expired, not valid yet or expiring, in order of the end."""
    for life in sorted(lives, key=lambda life: life.ends):
        ends = f"{life.file} ends {life.ends:%Y-%m-%d %H:%M} UTC"
        if life.ends <= now:
            return Finding(True, "CertificateExpired", f"{ends}: it has ended")
        if life.begins > now:
            begins = f"{life.file} begins {life.begins:%Y-%m-%d %H:%M} UTC"
            return Finding(True, "CertificateNotYetValid", f"{begins}: the clock may be wrong")
        if life.ends - now < min(soon, LATE * (life.ends - life.begins)):
            return Finding(True, "CertificateExpiresSoon", f"{ends} and was not renewed")
    if not lives:
        return Finding(None, "NoCertificate", "none of the files is there")
    count = len(lives)
    return Finding(False, "CertificatesAreValid", f"{count} certificates end late enough")
