"""Maintains the serving certificate of webhooks, in a Secret that all replicas share, and its
authority in the webhook configurations.

Every replica runs this, without a leader. A write of the Secret names the resourceVersion that was
read. So of two replicas that find a rotation due one wins, and the other reads the result. Callers
are never cut off, because of the order: a new authority is published first, it signs only after
`CertificateLifetimes.settle`, and a replica serves with a certificate only if the published bundle
trusts it.

A Secret that cert-manager fills is only read: cert-manager renews the certificate and publishes its
authority.
"""

import base64
import logging
from collections.abc import Sequence
from typing import Any

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import JSON_PATCH, Kube
from kubenode.runtime.kube.errors import Conflict, KubeError, NotFound
from kubenode.runtime.tls.certificates import Pair, UnreadablePem, ends_at, split
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.rotation import (
    CertificateLifetimes,
    Keys,
    bundle,
    next_at,
    renewed,
    trusts,
)

log = logging.getLogger(__name__)

POLL_SECONDS = 60.0
"""Delay until a replica notices what another one wrote."""
RETRY_SECONDS = 5.0
CERT_MANAGER = "cert-manager.io/certificate-name"
"""Annotation of a Secret that cert-manager fills."""
SECRET_API, HOOK_API = "/api/v1", "/apis/admissionregistration.k8s.io/v1"
VALIDATING, MUTATING = "validatingwebhookconfigurations", "mutatingwebhookconfigurations"
_KINDS = {VALIDATING: "ValidatingWebhookConfiguration", MUTATING: "MutatingWebhookConfiguration"}


class CertificateKeeper:
    """A Part, on every replica.

    secret: name of the Secret in `namespace`
    hook: name of the webhook configurations whose webhooks get the authority
    kinds: plurals of the configurations with that name
    chart: file that creates them, named if they are missing; "" if they may be missing
    names: host names and addresses of the server
    """

    name = "serving certificate"

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        context: LiveContext,
        *,
        namespace: str,
        secret: str,
        hook: str,
        names: Sequence[str],
        chart: str = "charts/kubenode/remedy/webhook.yaml",
        lives: CertificateLifetimes | None = None,
        kinds: Sequence[str] = (VALIDATING,),
    ) -> None:
        self._kube, self._clock, self._context = kube, clock, context
        self._namespace, self._secret, self._hook = namespace, secret, hook
        self._names, self._lives, self._chart = tuple(names), lives or CertificateLifetimes(), chart
        self._kinds = tuple(kinds)
        self._hooks: dict[str, list[dict[str, Any]]] = {}
        self._trouble = ""

    async def run(self) -> None:
        while True:
            try:
                seconds = await self.round()
            except Conflict:
                seconds = 0.1  # another replica wrote first: read the result
            except KubeError as error:
                self._note(str(error))
                seconds = RETRY_SECONDS
            await self._clock.sleep(seconds)

    async def round(self) -> float:
        """Check once and do what is due; return the seconds until the next check."""
        secret = await self._stored()
        if secret is not None and CERT_MANAGER in secret["metadata"].get("annotations", {}):
            return self._take(secret)
        published = await self._published()
        keys = await self._shared(secret)
        assert keys.serving is not None
        wanted = bundle(keys, published or b"", self._clock.now())
        if published is not None and _different(wanted, published):
            await self._publish(wanted)
        waiting = self._adopt(keys.serving, published)
        if len(self._hooks) == len(self._kinds):
            self._note("")
        pause = min((next_at(keys, self._lives) - self._clock.now()).total_seconds(), POLL_SECONDS)
        return max(min(pause, RETRY_SECONDS) if waiting else pause, 0.1)

    def _adopt(self, serving: Pair, published: bytes | None) -> bool:
        """Serve with `serving` if callers trust it; return whether it has to wait for that."""
        now, have = self._clock.now(), self._context.pair
        expired = have is None or ends_at(have.certificate) <= now
        if expired or published is None or trusts(published, serving):
            if serving != have:
                log.info("serving certificate", extra={"ends": ends_at(serving.certificate)})
            self._context.load(serving)
            return False
        return True

    # -- the Secret ------------------------------------------------------------------------------

    @property
    def _path(self) -> str:
        return paths.resource(SECRET_API, "secrets", namespace=self._namespace, name=self._secret)

    async def _stored(self) -> dict[str, Any] | None:
        try:
            return await self._kube.get(self._path)
        except NotFound:
            return None

    def _take(self, secret: dict[str, Any]) -> float:
        """Serve with the certificate of cert-manager; return the seconds until the next check."""
        try:
            data = {
                name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()
            }
            pair = Pair(data["tls.crt"], data["tls.key"])
            if pair != self._context.pair:
                log.info("serving certificate", extra={"ends": ends_at(pair.certificate)})
                self._context.load(pair)
        except (KeyError, ValueError) as error:
            self._note(f"Secret {self._secret}: cert-manager has put no certificate there: {error}")
            return RETRY_SECONDS
        self._note("")
        return POLL_SECONDS

    async def _shared(self, secret: dict[str, Any] | None) -> Keys:
        """Return the keys of all replicas, and renew them first if that is due."""
        before = _keys(secret) if secret is not None else None
        after = renewed(before, self._names, self._lives, self._clock.now())
        if after == before:
            return after
        body = {"type": "Opaque", "data": _data(after)}
        if secret is None:
            meta = {"name": self._secret, "namespace": self._namespace}
            folder = paths.resource(SECRET_API, "secrets", namespace=self._namespace)
            await self._kube.create(folder, {**body, "metadata": meta})
        else:
            version = secret["metadata"]["resourceVersion"]
            body = {"data": body["data"], "metadata": {"resourceVersion": version}}
            await self._kube.patch(self._path, body)
        log.info("certificates renewed", extra={"authorities": len(after.authorities)})
        return after

    # -- the configuration of the webhook --------------------------------------------------------

    async def _published(self) -> bytes | None:
        """Return the bundle that callers trust, b"" for none; None if there is no configuration."""
        by_kind = {kind: await self._hooks_of(kind) for kind in self._kinds}
        self._hooks = {kind: hooks for kind, hooks in by_kind.items() if hooks is not None}
        if missing := [kind for kind in self._kinds if kind not in self._hooks]:
            self._note(
                f"there is no {_KINDS[missing[0]]} {self._hook}, so nobody asks us: apply"
                f" {self._chart}"
                if self._chart
                else ""
            )
        if not self._hooks:
            return None
        each = [hook for hooks in self._hooks.values() for hook in hooks]
        texts = {hook.get("clientConfig", {}).get("caBundle", "") for hook in each}
        # If the webhooks differ, none is right: b"" makes the caller overwrite all of them.
        return base64.b64decode(texts.pop()) if len(texts) == 1 else b""

    async def _hooks_of(self, kind: str) -> list[dict[str, Any]] | None:
        try:
            configuration = await self._kube.get(paths.resource(HOOK_API, kind, name=self._hook))
        except NotFound:
            return None
        return configuration.get("webhooks") or []

    async def _publish(self, wanted: bytes) -> None:
        text = base64.b64encode(wanted).decode()
        for kind, hooks in self._hooks.items():
            patch: list[dict[str, str]] = []
            for n, hook in enumerate(hooks):
                patch.append({"op": "test", "path": f"/webhooks/{n}/name", "value": hook["name"]})
                path = f"/webhooks/{n}/clientConfig/caBundle"
                patch.append({"op": "add", "path": path, "value": text})
            await self._kube.patch(
                paths.resource(HOOK_API, kind, name=self._hook), patch, JSON_PATCH
            )
        log.info("authorities published", extra={"hook": self._hook})

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("certificate of the webhook", extra={"why": trouble})
        self._trouble = trouble


def _different(wanted: bytes, published: bytes) -> bool:
    try:
        return split(wanted) != split(published)
    except UnreadablePem:
        return True


def _keys(secret: dict[str, Any]) -> Keys | None:
    """Parse the Secret; None if a part of it is missing or malformed."""
    data = secret.get("data") or {}
    try:
        decoded = {name: base64.b64decode(text) for name, text in data.items()}
        authorities = tuple(split(decoded["ca.crt"]))
        serving = Pair(decoded["tls.crt"], decoded["tls.key"])
        return Keys(authorities, decoded["ca.key"], serving)
    except (KeyError, ValueError):
        return None


def _data(keys: Keys) -> dict[str, str]:
    assert keys.serving is not None
    parts = {
        "ca.crt": b"".join(keys.authorities),
        "ca.key": keys.signing,
        "tls.crt": keys.serving.certificate,
        "tls.key": keys.serving.key,
    }
    return {name: base64.b64encode(raw).decode() for name, raw in parts.items()}
