"""Notices that the cluster's data were restored from a backup, and freezes destructive acts.

After a restore of etcd what was made since the backup is unknown, and what was decided since may be
decided again. So nothing is deleted, stopped or replaced until a person has looked.

A ConfigMap counts up every minute: its sequence, and its own resourceVersion. Each process keeps in
memory, and in a file where it has one, how far it saw it. A restore takes the ConfigMap back:

    the sequence or resourceVersion is below what we saw     it went back
    the ConfigMap is gone, or another one                    it is from before, or another cluster's
    it speaks of a higher version than the server has        its data came into a new etcd
    a write of it is below what informers had seen           whatever the age of the backup
    an informer's list is below what its watch had seen      at once, before the next look

Behind a lost connection to the API server there may be a restored etcd. Each process reads and
writes the ConfigMap as soon as the server answers again; until then its view of the cluster is
unverified. It does so at its start too, so that the sequence moves however often processes die.

The freeze is written into the same ConfigMap: every operator obeys it, and a person lifts it. The
ConfigMap counts lifts: a process that was down meanwhile does not freeze again for a restore that a
person has looked at. While the ConfigMap cannot be read nothing is known and destructive acts wait.
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
"""For so long after its start a process that could not look yet takes a freeze for possible."""
BEAT_SECONDS = 60.0
"""Between two writes of the sequence, by whichever process comes first."""
OWN_STORES = ("/events", "/leases")
"""Large clusters keep these in an etcd of their own, which is no part of the cluster's data."""
RETRY_SECONDS = 1.0
"""After a look that failed, or in which another process wrote first."""
UNVERIFIED = (
    "the API server was unreachable, and whether its data were restored is not known yet: ConfigMap"
    " kubenode-lineage"
)
UNREAD = "whether the cluster's data were restored is not known yet: ConfigMap kubenode-lineage"


@dataclass(frozen=True, slots=True)
class Lineage:
    """What the ConfigMap says.

    frozen     why destructive acts are frozen, "" if they are not
    frozen_at  as it was written, for people; likewise `lifted_by` and `lifted_why`
    highest    the ConfigMap's resourceVersion when it was last counted up
    lifts      how many freezes people have lifted
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
    """What cannot be read as a number is 0, so it counts as having gone back."""
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
    """What ends a freeze, for `ConfigMapStore.write`; `lifts` were there before."""
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
    """How far the ConfigMap was when we last saw it; kept outside etcd."""

    uid: str
    sequence: int
    version: int
    lifts: int = 0


def restored(known: KnownLineage | None, stored: StoredTexts, lineage: Lineage) -> str:
    """Why the cluster's data must have been restored since `known`, "" if nothing says so. Pure."""
    version = _number(stored.version)
    if stored.version and version < lineage.highest:
        return f"ConfigMap {NAME} is of another etcd: it was at {lineage.highest}, now at {version}"
    if known is None:
        return ""
    if not stored.version:
        return f"ConfigMap {NAME} is gone"
    if not lineage.frozen and lineage.lifts > known.lifts:
        return ""  # a person has looked since then
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
    """A file outside etcd, in which a restarted process finds how far it was; None: there is none.

    What cannot be read or written is logged and costs nothing but this memory.
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
    """A Part, of the ground ring: every replica looks.

    by     our program's name, for people
    known  the file that outlives a restart
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
            "1 while destructive acts are frozen because the cluster's data were restored.",
            registry=registry,
        )
        gauge.set_function(lambda: float(bool(self.restored)))
        kube.on_went_back.append(self.went_back)

    def frozen(self) -> str:
        """Why nothing may be deleted, stopped or replaced now, as a sentence; "" if it may."""
        return self.restored or self._doubt or self.unverified()

    def unverified(self) -> str:
        """Why what this process knows of the cluster may be from before a restore, as it has not
        looked since its start or since it lost a connection to the API server; "" if it has.
        """
        if self._looked:
            return UNVERIFIED if self._verified < self._outage.disconnections else ""
        early = self._clock.monotonic() < self._began + FIRST_CHECK_SECONDS
        return f"{UNREAD} is not read yet" if early else ""

    @property
    def restored(self) -> str:
        """Why the freeze holds that a person has to lift, "" for none."""
        why = self._noticed or self._frozen
        return f"the cluster's data were restored from a backup: {why}" if why else ""

    def restored_or_unverified(self) -> str:
        """Why a freeze holds, or may hold as this process has not looked yet; "" for neither."""
        return self.restored or self.unverified()

    def went_back(self, path: str, before: int, now: int) -> None:
        """An informer that had seen `before` lists `path` at `now`."""
        if now < before and not path.endswith(OWN_STORES):
            why = f"the API server went back from resourceVersion {before} to {now}"
            self._notice(why, relist=not self.restored)

    async def run(self) -> None:
        while True:
            outage_ended = self._outage.ended
            seconds = CHECK_SECONDS if await self.check_lineage() else RETRY_SECONDS
            await wait(self._clock, outage_ended, seconds)

    async def check_lineage(self) -> bool:
        """Read the ConfigMap, notice what it shows, and write what is due. False: look soon."""
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
            return False  # another process wrote: the next look sees it
        except KubeError as error:
            self._doubt = f"ConfigMap kubenode-lineage cannot be read or written: {error}"
            if not isinstance(error, Forbidden):
                return False
        self._verified = disconnections
        return True

    def _notice(self, why: str, *, relist: bool = True) -> None:
        """relist: the caches of this process are from before the restore."""
        if not self._noticed:
            if relist:
                self._kube.restored()
            self._noticed = why
            log.critical("the cluster's data were restored: frozen", extra={"why": why})

    def _behind(self, written: StoredTexts, before: int) -> str:
        """Why the server must be a restored one, as what was just written is older than `before`,
        which an informer had seen when the write was sent; "" if it is not.
        """
        now = _number(written.version)
        if self._noticed or now >= before:
            return ""
        return f"the API server went back from resourceVersion {before} to {now}"

    def _due(self, stored: StoredTexts, lineage: Lineage) -> Mapping[str, str]:
        """What is to be written now, empty for nothing."""
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
        """What stands in the ConfigMap is the truth from now on."""
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
