"""Detects that the cluster's data were restored from a backup, and freezes destructive acts.

After a restore of etcd, objects created since the backup are unknown, and decisions made since may
be made again. So nothing is deleted, stopped or replaced until a person has checked the cluster.

A ConfigMap is written every minute and counts up: its sequence, and its own resourceVersion. Each
process remembers, in memory and in a file if it has one, the last counts that it read. A restore
sets the ConfigMap back:

    the sequence or resourceVersion is below the last one    the ConfigMap went back
    the ConfigMap is missing, or has another UID             it dates from before, or from elsewhere
    it names a higher version than the server has            its data came into a new etcd
    a write of it is below what informers had read           detected whatever the age of the backup
    an informer's list is below what its watch had read      detected before the next check

After a lost connection to the API server, etcd may have been restored. Each process reads and
writes the ConfigMap as soon as the server answers again; until then its view of the cluster is
unverified. It also does so at its start, so that the sequence grows however often processes end.

The freeze is written into the same ConfigMap. Every operator obeys it, and a person lifts it. The
ConfigMap counts lifts, so that a process that was down meanwhile does not freeze again for a
restore that a person has checked. While the ConfigMap cannot be read, destructive acts wait.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from kubenode.runtime.audit import SILENT, Audit, AuditLine
from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.configmaps import NAMESPACE, ConfigMapStore, StoredTexts
from kubenode.runtime.kube.errors import Conflict, Forbidden, KubeError

log = logging.getLogger(__name__)

NAME = "kubenode-lineage"
CHECK_SECONDS = 10.0
FIRST_CHECK_SECONDS = 60.0
"""Time after its start for which a process without a successful check assumes a possible freeze."""
BEAT_SECONDS = 60.0
"""Time between two writes of the sequence, by whichever process is first."""
OWN_STORES = ("/events", "/leases")
"""Large clusters store these in a separate etcd, which a restore of the data leaves out."""
RETRY_SECONDS = 1.0
"""Delay after a check that failed, or in which another process wrote first."""
UNVERIFIED = (
    "the API server was unreachable, and whether its data were restored is not known yet: ConfigMap"
    " kubenode-lineage"
)
UNREAD = "whether the cluster's data were restored is not known yet: ConfigMap kubenode-lineage"


@dataclass(frozen=True, slots=True)
class Lineage:
    """The content of the ConfigMap.

    highest: the ConfigMap's resourceVersion when it was last counted up
    frozen: why destructive acts are frozen, "" if they are not
    frozen_at, lifted_at: as written, for people
    noticed_by: the program that detected the restore
    lifted_by, lifted_why: the person who lifted the last freeze, and the reason
    lifts: number of freezes that people have lifted
    """

    sequence: int = 0
    highest: int = 0
    frozen: str = ""
    frozen_at: str = ""
    noticed_by: str = ""
    lifted_at: str = ""
    lifted_by: str = ""
    lifted_why: str = ""
    lifts: int = 0


def read_lineage(stored: StoredTexts) -> Lineage:
    """Parse the ConfigMap. A malformed count is read as 0, so it seems to have gone back."""
    data = stored.data
    return Lineage(
        _number(data.get("sequence", "")),
        _number(data.get("resourceVersion", "")),
        data.get("frozen", ""),
        data.get("frozenAt", ""),
        data.get("noticedBy", ""),
        data.get("liftedAt", ""),
        data.get("liftedBy", ""),
        data.get("liftedWhy", ""),
        _number(data.get("lifts", "")),
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0


def lift(now: str, by: str, why: str, lifts: int = 0) -> dict[str, str | None]:
    """Build the change that lifts a freeze, for `ConfigMapStore.write`.

    lifts: number of earlier lifts
    """
    return {
        "frozen": None,
        "frozenAt": None,
        "noticedBy": None,
        "liftedAt": now,
        "liftedBy": by,
        "liftedWhy": why,
        "lifts": str(lifts + 1),
    }


class KnownLineage(msgspec.Struct, frozen=True):
    """The counts of the ConfigMap when we last read it; stored outside of etcd."""

    uid: str
    sequence: int
    version: int
    lifts: int = 0


def restored(known: KnownLineage | None, stored: StoredTexts, lineage: Lineage) -> str:
    """Return why the data must have been restored since `known`, "" without a sign. Pure."""
    version = _number(stored.version)
    if stored.version and version < lineage.highest:
        return f"ConfigMap {NAME} is of another etcd: it was at {lineage.highest}, now at {version}"
    if known is None:
        return ""
    if not stored.version:
        return f"ConfigMap {NAME} is gone"
    if not lineage.frozen and lineage.lifts > known.lifts:
        return ""  # a person has checked the cluster since then
    if stored.uid != known.uid:
        return f"ConfigMap {NAME} is another one than before"
    if lineage.sequence < known.sequence or version < known.version:
        return (
            f"ConfigMap {NAME} went back from {known.sequence} (resourceVersion {known.version})"
            f" to {lineage.sequence} ({version})"
        )
    return ""


_decode = msgspec.json.Decoder(KnownLineage).decode


class KnownFile:
    """A file outside of etcd with the last counts, for the next start. None: there is no file.

    A failed read or write is logged, and loses only these counts.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self) -> KnownLineage | None:
        if self._path is None:
            return None
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("lineage file cannot be read", extra={"why": str(error)})
            return None

    def write(self, known: KnownLineage) -> None:
        if self._path is None:
            return
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_bytes(msgspec.json.encode(known))
            os.replace(fresh, self._path)
        except OSError as error:
            log.warning("lineage file cannot be written", extra={"why": str(error)})


class RestoreWatch:
    """A Part, of the ground ring. Every replica checks.

    by: name of our program, for people
    known: the file that outlives a restart
    """

    name = "restore watch"

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        registry: CollectorRegistry,
        by: str,
        known: KnownFile | None = None,
        audit: Audit = SILENT,
        namespace: str = NAMESPACE,
    ) -> None:
        self._store = ConfigMapStore(kube, NAME, namespace)
        self._clock, self._by, self._audit = clock, by, audit
        self._file = known or KnownFile(None)
        self._known = self._file.read()
        self._moved_at = self._began = clock.monotonic()
        self._looked = False
        self._kube, self._outage = kube, kube.outage
        self._verified = 0
        self._noticed = self._frozen = ""
        self._doubt = f"{UNREAD} is not read yet"
        gauge = Gauge(
            "kubenode_restore_frozen",
            "1 while destructive acts are frozen after a restore of etcd, otherwise 0.",
            registry=registry,
        )
        gauge.set_function(lambda: float(bool(self.restored)))
        kube.on_went_back.append(self.went_back)

    def frozen(self) -> str:
        """Return why nothing may be deleted, stopped or replaced now, a sentence; else ""."""
        return self.restored or self._doubt or self.unverified()

    def unverified(self) -> str:
        """Return why our view of the cluster may predate a restore, "" if it is verified.

        It is unverified after each lost connection until the next check. At the start it is
        unverified until the first check, but at most for FIRST_CHECK_SECONDS.
        """
        if self._looked:
            return UNVERIFIED if self._verified < self._outage.disconnections else ""
        early = self._clock.monotonic() < self._began + FIRST_CHECK_SECONDS
        return f"{UNREAD} is not read yet" if early else ""

    @property
    def restored(self) -> str:
        """Return why a freeze is active that a person has to lift, "" for none."""
        why = self._noticed or self._frozen
        return f"the cluster's data were restored from a backup: {why}" if why else ""

    def restored_or_unverified(self) -> str:
        """Return why a freeze is active, or may be without a check so far; "" for neither."""
        return self.restored or self.unverified()

    def went_back(self, path: str, before: int, now: int) -> None:
        """Take the report of an informer that had read `before` and now lists `path` at `now`."""
        if now < before and not path.endswith(OWN_STORES):
            why = f"the API server went back from resourceVersion {before} to {now}"
            self._notice(why, relist=not self.restored)

    async def run(self) -> None:
        while True:
            outage_ended = self._outage.ended
            seconds = CHECK_SECONDS if await self.check_lineage() else RETRY_SECONDS
            await wait(self._clock, outage_ended, seconds)

    async def check_lineage(self) -> bool:
        """Read the ConfigMap, detect a restore, and write what is due. False: check again soon."""
        disconnections = self._outage.disconnections
        try:
            stored = await self._store.read()
            lineage = read_lineage(stored)
            if why := restored(self._known, stored, lineage):
                self._notice(why)
            if change := self._due(stored, lineage):
                before = self._kube.newest
                stored = await self._store.write(change, stored)
                if why := self._behind(stored, before):
                    self._notice(why)
                    stored = await self._store.write(
                        self._due(stored, read_lineage(stored)), stored
                    )
                lineage = read_lineage(stored)
            self._take_in(stored, lineage)
        except Conflict:
            return False  # another process wrote: the next check reads it
        except KubeError as error:
            self._doubt = f"ConfigMap kubenode-lineage cannot be read or written: {error}"
            if not isinstance(error, Forbidden):
                return False
        self._verified = disconnections
        return True

    def _notice(self, why: str, *, relist: bool = True) -> None:
        """Record a restore. With `relist` our caches predate it, so informers list again."""
        if not self._noticed:
            if relist:
                self._kube.restored()
            self._noticed = why
            log.critical("the cluster's data were restored: frozen", extra={"why": why})

    def _behind(self, written: StoredTexts, before: int) -> str:
        """Return why the server must have been restored, "" if nothing shows it.

        The write just made has a lower version than `before`, which an informer had read when it
        was sent.
        """
        now = _number(written.version)
        if self._noticed or now >= before:
            return ""
        return f"the API server went back from resourceVersion {before} to {now}"

    def _due(self, stored: StoredTexts, lineage: Lineage) -> Mapping[str, str]:
        """Return what is to be written now, empty for nothing."""
        counted = {"sequence": str(lineage.sequence + 1), "resourceVersion": stored.version or "0"}
        if self._noticed and not lineage.frozen:
            frozen = {
                "frozen": self._noticed,
                "frozenAt": self._clock.now().isoformat(timespec="seconds"),
                "noticedBy": self._by,
            }
            return {**counted, **frozen}
        late = self._clock.monotonic() >= self._moved_at + BEAT_SECONDS
        due = late or not self._looked or self.unverified() or not stored.version
        return counted if due else {}

    def _take_in(self, stored: StoredTexts, lineage: Lineage) -> None:
        """Adopt the content of the ConfigMap as the truth from now on."""
        if bool(lineage.frozen) != bool(self._frozen):
            what = "Freeze" if lineage.frozen else "Lift"
            who = (lineage.noticed_by if lineage.frozen else lineage.lifted_by) or "unknown"
            why = lineage.frozen or lineage.lifted_why
            now = self._clock.now()
            self._audit.write(AuditLine(now, self._by, who, what, "Done", why=why))
            if lineage.frozen and self._looked and not self._noticed:
                self._kube.restored()  # another process noticed it
        self._frozen, self._noticed, self._doubt = lineage.frozen, "", ""
        self._looked = True
        known = KnownLineage(stored.uid, lineage.sequence, _number(stored.version), lineage.lifts)
        if self._known is None or known.sequence != self._known.sequence:
            self._moved_at = self._clock.monotonic()
        if known != self._known:
            self._known = known
            self._file.write(known)
