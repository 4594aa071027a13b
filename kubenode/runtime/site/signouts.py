"""Sessions that were logged out, shared by all replicas so that their cookies become invalid.

A ConfigMap stores the SHA-256 of each session with the expiry of its cookie. Every replica reads
and writes it every few seconds; the replica at which a person logs out applies it at once. A failed
write is repeated the next time.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256

from kubenode.api.meta import format_time
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.configmaps import ConfigMapStore
from kubenode.runtime.kube.errors import KubeError

log = logging.getLogger(__name__)

NAME = "kubenode-dashboard-signouts"
EVERY = timedelta(seconds=5)
MOST = 5_000
"""Greatest number of sessions. A ConfigMap has room for ten thousand."""


class SignOuts:
    """A part. `store` None: cookies use a key of this process, so no other replica accepts them."""

    name = "sign-outs of the dashboard"

    def __init__(self, store: ConfigMapStore | None, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._until: dict[str, datetime] = {}
        self._unwritten: set[str] = set()

    def __contains__(self, session: str) -> bool:
        return _mark(session) in self._until

    def add(self, session: str, until: datetime) -> None:
        """End the session. Its cookie expires at `until`."""
        mark = _mark(session)
        self._until[mark] = until
        self._unwritten.add(mark)
        if len(self._until) > MOST:
            self._drop()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(EVERY.total_seconds())
            await self.exchange()

    async def exchange(self) -> None:
        """Read the logouts of other replicas, and write new ones."""
        if self._store is not None:
            try:
                await self._exchange(self._store)
            except KubeError as error:
                log.warning("sign-outs are not exchanged", extra={"why": str(error)})
        self._drop()

    async def _exchange(self, store: ConfigMapStore) -> None:
        stored = await store.read()
        known = _read(stored.data)
        self._until = {**known, **self._until}
        if not self._unwritten:
            return
        now = self._clock.now()
        change: dict[str, str | None] = {
            mark: None for mark in stored.data if known.get(mark, now) <= now
        }
        given = {m: format_time(self._until[m]) for m in self._unwritten if m in self._until}
        await store.write(change | given, base=stored)
        self._unwritten -= given.keys()

    def _drop(self) -> None:
        """Drop sessions whose cookie has expired; beyond MOST, those that expire first."""
        now = self._clock.now()
        valid = sorted((until, mark) for mark, until in self._until.items() if until > now)
        self._until = {mark: until for until, mark in valid[-MOST:]}
        self._unwritten &= self._until.keys()


def _mark(session: str) -> str:
    return sha256(session.encode()).hexdigest()


def _read(data: Mapping[str, str]) -> dict[str, datetime]:
    """Return the stored sessions. Unreadable entries are ignored."""
    sessions = {}
    for mark, text in data.items():
        try:
            until = datetime.fromisoformat(text)
        except ValueError:
            continue
        if until.tzinfo is not None:
            sessions[mark] = until
    return sessions
