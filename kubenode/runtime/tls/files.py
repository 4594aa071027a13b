"""A server's certificate, and its clients' authorities, from files that another program renews."""

import logging
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509

from kubenode.runtime.clock import Clock
from kubenode.runtime.process import CannotStart
from kubenode.runtime.tls.certificates import Pair, UnreadablePem
from kubenode.runtime.tls.context import LiveContext

log = logging.getLogger(__name__)

POLL_SECONDS = 10.0
"""Delay until a renewed file is noticed, by content: kubelet swaps links and keeps times."""


LATE = 0.1
"""Share of a certificate's life that remains when a warning is logged that it was not renewed."""


@dataclass(frozen=True, slots=True)
class PemFiles:
    """PEM files. Without certificate and key the context gets them from elsewhere."""

    certificate: Path | None = None
    key: Path | None = None
    client_authorities: Path | None = None


class FileKeeper:
    """A Part: loads the content of the files into a context, again whenever it changes."""

    name = "certificate files"

    def __init__(self, clock: Clock, context: LiveContext, files: PemFiles) -> None:
        self._clock, self._context, self._files = clock, context, files
        self._trouble = ""

    def start(self, flag: str) -> None:
        """Load the files for the first time. Raises CannotStart, which names `flag`."""
        try:
            self._load()
        except (OSError, UnreadablePem) as error:
            raise CannotStart(f"{error}; see {flag}") from error

    async def run(self) -> None:
        while True:
            await self._clock.sleep(POLL_SECONDS)
            self.refresh()

    def refresh(self) -> None:
        """Load the files again. After an error log it, and keep the earlier content."""
        trouble = ""
        try:
            self._load()
            trouble = _ending(self._context.pair, self._clock.now())
        except (OSError, UnreadablePem) as error:
            trouble = str(error)
        if trouble and trouble != self._trouble:
            log.warning("certificate files", extra={"why": trouble})
        self._trouble = trouble

    def _load(self) -> None:
        files = self._files
        if files.client_authorities is not None:
            self._context.trust(_read(files.client_authorities))
        if files.certificate is not None and files.key is not None:
            self._context.load(Pair(_read(files.certificate), _read(files.key)))


def start_webhook_files(
    clock: Clock, context: LiveContext, files: PemFiles, flag: str
) -> FileKeeper | None:
    """Load the certificate of a webhook from `files`. None if they name none.

    flag: prefix of both settings, such as "--webhook". Raises CannotStart.
    """
    if (files.certificate is None) is not (files.key is None):
        raise CannotStart(
            f"{flag}-cert-file and {flag}-key-file belong together: give both, or none"
        )
    if files.certificate is None:
        return None
    keeper = FileKeeper(clock, context, files)
    keeper.start(f"{flag}-cert-file")
    return keeper


def _ending(pair: Pair | None, now: datetime) -> str:
    """Return a warning if the certificate was not renewed for most of its life, else ""."""
    if pair is None:
        return ""
    leaf = x509.load_pem_x509_certificates(pair.certificate)[0]
    starts, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if ends - now > (ends - starts) * LATE:
        return ""
    return f"the certificate ends at {ends:%Y-%m-%dT%H:%M:%SZ}, and nobody has renewed it"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror or error}") from error
