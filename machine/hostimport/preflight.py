"""Checks of a host before it is imported, while nothing on it is changed. Pure.

A finding says what was checked, what was found and what to do. A refusal ends the import; a warning
is printed and the import continues.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from machine.hostimport.probe import CURRENT, HostFacts

CLOCK_WARN_SECONDS, CLOCK_MOST_SECONDS = 5.0, 60.0
"""Limits of the clock offset. Certificates and requests to the agent have a lifetime, and signers
date their certificates back by minutes only.
"""
ROOM_KIB = 300 * 1024
"""Free space that the package needs: about 90 MiB, twice during an upgrade, with reserve."""
SYSTEMD = 249
"""Oldest version of systemd that the agent's unit and transient units are for."""
SUFFIXES = {"deb": ".deb", "rpm": ".rpm", "tar": ".tar.gz"}
"""How the names of packages end, by format."""
DOCS = "docs/machine-import.md"


class Level(StrEnum):
    """Severity of a finding."""

    REFUSED = "Refused"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class PreflightFinding:
    """The result of a check: the subject, its value and the remedy."""

    level: Level
    what: str
    value: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.value}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """What the host shall become.

    machine, node: names of the Machine and of its Node.
    expects_node: whether the Machine waits for a Node.
    joins_by_token: whether a component installs the kubelet, so that none runs yet.
    server: https://HOST:PORT of the API server.
    packages: format and architecture of each package at hand, such as ("deb", "amd64"); () if the
        host gets its package from elsewhere.
    fetches: whether the host fetches the package from a URL.
    """

    machine: str
    node: str
    expects_node: bool
    server: str
    joins_by_token: bool = False
    packages: tuple[tuple[str, str], ...] = ()
    fetches: bool = False


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Seconds by which the host's clock is ahead of this computer's, plus or minus `uncertain`."""

    ahead: float
    uncertain: float

    @property
    def off(self) -> float:
        """The least possible offset in seconds."""
        return max(0.0, abs(self.ahead) - self.uncertain)


Check = Callable[[HostFacts, ImportTarget], Iterator[PreflightFinding]]


def findings(facts: HostFacts, wanted: ImportTarget, clock: ClockOffset) -> list[PreflightFinding]:
    """Return all findings together, so that a person can correct them in one go. Refusals come
    first.
    """
    if not facts.complete:
        how = "the host did not finish its answer"
        return [_no("preflight", how, "can its shell run `sh -s`? See what it says by hand")]
    results = [finding for check in CHECKS for finding in check(facts, wanted)]
    results += _clock(facts, clock)
    return sorted(results, key=lambda finding: finding.level is Level.WARNING)


def _no(what: str, value: str, remedy: str) -> PreflightFinding:
    return PreflightFinding(Level.REFUSED, what, value, remedy)


def _warn(what: str, value: str, remedy: str) -> PreflightFinding:
    return PreflightFinding(Level.WARNING, what, value, remedy)


def _rights(facts: HostFacts, wanted: ImportTarget) -> Iterator[PreflightFinding]:
    if not facts.root:
        how = "log in as root, or let this user `sudo` without a password"
        yield _no("rights", "neither root nor sudo without a password", how)


def _platform(facts: HostFacts, wanted: ImportTarget) -> Iterator[PreflightFinding]:
    if not facts.systemd:
        yield _no("systemd", "it does not run", "the agent is a service of it: use such a host")
    elif facts.systemd.isdigit() and int(facts.systemd) < SYSTEMD:
        how = f"the agent needs {SYSTEMD} or later: upgrade the host's system"
        yield _no("systemd", f"version {facts.systemd}", how)
    yield from _package(facts, wanted)
    if facts.audit:
        how = "`dpkg --configure -a` and `apt-get -f install` on the host first"
        yield _no("package database", f"not configured: {', '.join(facts.audit)}", how)


def _package(facts: HostFacts, wanted: ImportTarget) -> Iterator[PreflightFinding]:
    """Check that there is a package of the host's format and architecture."""
    suffix = SUFFIXES[facts.format]
    if wanted.packages and (facts.format, facts.arch) not in wanted.packages:
        value = f"the host needs a {suffix} for {facts.arch}, and --agent-package has none"
        how = f'add it: `make packages ARGS="--arch {facts.arch}"` builds it into dist/'
        yield _no("package", value, how)
    elif not wanted.packages and facts.format == "tar" and not (wanted.fetches or facts.package):
        how = f"name the agent's {suffix} by --agent-package"
        yield _no("package", f"{facts.os or 'the host'} has neither dpkg nor rpm", how)


def _room(facts: HostFacts, wanted: ImportTarget) -> Iterator[PreflightFinding]:
    for folder, free in facts.free.items():
        if free < ROOM_KIB and not facts.package:
            how = f"free {ROOM_KIB // 1024} MiB"
            yield _no("disk", f"{free // 1024} MiB free in {folder}", how)


def _agent(facts: HostFacts, wanted: ImportTarget) -> Iterator[PreflightFinding]:
    if facts.agent not in ("", wanted.machine):
        how = f"`kubenode machine export {facts.agent}` first, or import it with --name"
        yield _no("agent", f"it is Machine {facts.agent}'s already", f"{how} {facts.agent}")


def _others(facts: HostFacts, wanted: ImportTarget) -> Iterator[PreflightFinding]:
    for unit in facts.units:
        how = "have it leave alone what components will own here, or switch it off"
        yield _warn("other manager", f"{unit} is active or enabled", how)


def _kubelet(facts: HostFacts, wanted: ImportTarget) -> Iterator[PreflightFinding]:
    """Check the kubelet. F26: a certificate that is never renewed ends the node within a year."""
    if not wanted.expects_node:
        if facts.kubelet:
            yield _warn("kubelet", "one runs here", "leave out --node none if it is a Node of ours")
        return
    if wanted.joins_by_token:
        if facts.kubelet and facts.agent != wanted.machine:
            how = "leave out --node join: this kubelet is there already"
            yield _no("kubelet", "one runs here, and a component shall install it", how)
        return
    if not facts.kubelet:
        how = "start it, say --node join if a component installs it, or --node none for no Node"
        yield _warn("kubelet", f"none runs here: Node {wanted.node} will be waited for", how)
    elif facts.node_name and facts.node_name != wanted.node:
        how = f"say --node-name {facts.node_name}"
        yield _warn("Node", f"the kubelet calls itself {facts.node_name}, not {wanted.node}", how)
    yield from _certificate(facts)


def _certificate(facts: HostFacts) -> Iterator[PreflightFinding]:
    what = "kubelet certificate"
    out = f"switch it to the rotating one first: {DOCS}, Static kubelet certificates"
    if facts.credential == "embedded":
        yield _no(what, f"embedded in {facts.kubeconfig}, so it is never renewed", out)
    elif facts.credential == "file" and not facts.certificate.endswith(CURRENT):
        value = f"{facts.kubeconfig} names {facts.certificate}, which no kubelet renews"
        yield _no(what, value, out)
    elif facts.credential == "file" and not facts.rotates:
        how = "set rotateCertificates: true in the kubelet's configuration"
        yield _warn(what, "its rotation is not seen to be on", how)
    elif facts.credential == "unreadable":
        yield _no(what, f"{facts.kubeconfig} cannot be read", "run the import as root")


def _reach(facts: HostFacts, wanted: ImportTarget) -> Iterator[PreflightFinding]:
    what = "API server"
    if not facts.reach:
        how = "it could not be tried without python3; see that it is reached"
        yield _warn(what, f"{wanted.server} from the host: unknown", how)
    elif "CERTIFICATE_VERIFY_FAILED" in facts.reach:
        how = "name it by --server as its certificate does, and look at the host's clock"
        yield _no(what, f"{wanted.server} shows another certificate: {facts.reach}", how)
    elif facts.reach != "ok":
        how = "open the way (firewall, route, DNS), or name it by --server as hosts reach it"
        yield _no(what, f"{wanted.server} is not reached from the host: {facts.reach}", how)


def _clock(facts: HostFacts, clock: ClockOffset) -> Iterator[PreflightFinding]:
    how = "have chrony or systemd-timesyncd set it"
    value = f"{clock.ahead:+.1f} s against this computer"
    if clock.off > CLOCK_MOST_SECONDS:
        yield _no("clock", value, how)
    elif clock.off > CLOCK_WARN_SECONDS:
        yield _warn("clock", value, how)
    elif facts.synchronised == "no":
        yield _warn("clock", "nothing is seen to keep it right", how)


CHECKS: tuple[Check, ...] = (
    _rights,
    _platform,
    _room,
    _agent,
    _others,
    _kubelet,
    _reach,
)
