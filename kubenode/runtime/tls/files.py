"""A server's certificate, and its clients' authorities, from files that somebody else renews."""

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
"""How late a renewed file is noticed. By content: kubelet swaps links, and keeps times."""


LATE = 0.1
"""Share of a certificate's life that is left when its end is told: whoever renews it has not."""


@dataclass(frozen=True, slots=True)
class PemFiles:
    """PEM files. Without certificate and key the context gets them from elsewhere."""

    certificate: Path | None = None
    key: Path | None = None
    client_authorities: Path | None = None


class FileKeeper:
    """A Part: gives the files' content to a context, again whenever it changes."""

    name = "certificate files"

    def __init__(self, clock: Clock, context: LiveContext, files: PemFiles) -> None:
        self._clock, self._context, self._files = clock, context, files
        self._trouble = ""

    def start(self, flag: str) -> None:
        """The first time, when a person is there to be told. Raises CannotStart; `flag` is named
        in it."""
        try:
            self._load()
        except (OSError, UnreadablePem) as error:
            raise CannotStart(f"{error}; see {flag}") from error

    async def run(self) -> None:
        while True:
            await self._clock.sleep(POLL_SECONDS)
            self.refresh()

    def refresh(self) -> None:
        """What cannot be used is told, and what was there before goes on being used."""
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
    """Load the certificate of a webhook from `files`. None: they name none.

    flag: start of the names of both settings, such as "--webhook". Raises CannotStart.
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
    """A warning if nobody has renewed it for most of its life; "" otherwise."""
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
