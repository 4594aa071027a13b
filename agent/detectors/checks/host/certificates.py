"""Certificates that end soon, have ended, or are not valid yet (as on a host whose clock is off).

Soon is less than the given days and less than a tenth of the certificate's life: kubelets renew
theirs after 70 to 90 % of it, so one with a day to live is not late with two hours left.
"""

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from agent.detectors.checks import Finding, Findings
from agent.identity.dates import dates
from kubenode.runtime.clock import Clock

CONDITION = "CertificateExpiring"
MOST = 1 << 20
"""Bytes of a file that are read."""
LATE = 0.1
BEGIN = b"-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Life:
    """Of one certificate; `file` names it to people."""

    file: str
    begins: datetime
    ends: datetime


class Certificates:
    """files  paths, with * and ? as a shell has them; what is not there is left out"""

    def __init__(self, files: Sequence[str], days: float, clock: Clock, root: str = "/") -> None:
        self._files, self._days, self._clock, self._root = tuple(files), days, clock, root

    def inspect(self) -> Findings:
        """Raises OSError, and ValueError for a certificate that cannot be read."""
        lives = []
        for pattern in self._files:
            for path in sorted(glob.glob(str(Path(self._root, pattern.lstrip("/"))))):
                lives += read(path)
        return {CONDITION: judge(lives, self._clock.now(), timedelta(days=self._days))}


def read(path: str) -> list[Life]:
    """The certificate that a file begins with is the one that is shown; the rest are its chain."""
    with open(path, "rb") as file:
        content = file.read(MOST)
    if BEGIN not in content:
        return []  # a key of its own
    try:
        begins, ends = dates(content)
    except ValueError as error:
        raise ValueError(f"{path}: no certificate can be read: {error}") from error
    return [Life(path, begins, ends)]


def judge(lives: Sequence[Life], now: datetime, soon: timedelta) -> Finding:
    """The worst: ended, not begun, then whichever ends first."""
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
