"""Webhooks of the chart, whose certificates Helm creates."""

import json
import socket
import ssl
from dataclasses import dataclass
from http.client import HTTPSConnection
from typing import Any

from support.chart_plane import NODE
from support.helm import NAMESPACE, Object, pod_specs

JSON = {"Content-Type": "application/json"}
UID = "review-1"


@dataclass(frozen=True, slots=True)
class ChartWebhook:
    """A webhook of the chart, and its certificate by Helm.

    part, values: the program, and the name of the webhook in its values
    secret: name of the Secret that Helm writes
    own: name of the Secret that the program fills where it creates the certificate
    service: Service that leads to the webhook
    path: where it answers reviews of this resource, which is of this API group
    """

    part: str
    values: str
    secret: str
    own: str
    service: str
    path: str
    group: str
    resource: str

    def certificate(self, **values: Any) -> Object:
        return {self.part: {self.values: {"certificate": values}}}

    def pod(self, objects: list[Object]) -> Object:
        return next(s for name, s in pod_specs(objects) if name.endswith(f"/kubenode-{self.part}"))

    def secrets(self, objects: list[Object]) -> dict[str, Object]:
        """Its Secrets in `objects`, by name."""
        secrets = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Secret"}
        return {name: secrets[name] for name in (self.secret, self.own) if name in secrets}

    def bundles(self, objects: list[Object]) -> set[str]:
        """The CA bundles of its configurations."""
        return {
            hook["clientConfig"].get("caBundle", "")
            for one in objects
            if one["kind"].endswith("WebhookConfiguration")
            and one["metadata"]["name"] == f"kubenode-{self.part}"
            for hook in one["webhooks"]
        }

    @property
    def host(self) -> str:
        """The name that the API server verifies."""
        return f"{self.service}.{NAMESPACE}.svc"

    def review(self, port: int, bundle: bytes) -> str:
        """Send a review as the API server does. Returns the uid in the response.

        port: where the webhook listens on this host. Raises OSError, also for a certificate that
        `bundle` does not trust.
        """
        context = ssl.create_default_context(cadata=bundle.decode())
        with (
            socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname=self.host) as encrypted,
        ):
            connection = HTTPSConnection(self.host)
            connection.sock = encrypted
            connection.request("POST", self.path, json.dumps(self._request()), JSON)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise ConnectionError(f"{answer.status}: {body.decode()}")
        return str(json.loads(body)["response"]["uid"])

    def _request(self) -> Object:
        """A deletion. Kube Defender judges that of a Node which it knows."""
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": UID,
                "operation": "DELETE",
                "resource": {"group": self.group, "resource": self.resource},
                "name": NODE["metadata"]["name"],
                "dryRun": True,
                "userInfo": {"username": "someone", "groups": ["system:authenticated"]},
                "object": None,
                "oldObject": {"metadata": {"name": NODE["metadata"]["name"]}, "spec": {}},
            },
        }


REMEDY_WEBHOOK, MACHINE_WEBHOOK = "kubenode-remedy-webhook", "kubenode-machine-webhook"
WEBHOOKS = (
    ChartWebhook(
        part="remedy",
        values="webhook",
        secret=f"{REMEDY_WEBHOOK}-tls",
        own=REMEDY_WEBHOOK,
        service=REMEDY_WEBHOOK,
        path="/validate/noderemediers",
        group="kubenode.io",
        resource="noderemediers",
    ),
    ChartWebhook(
        part="machine",
        values="webhook",
        secret=f"{MACHINE_WEBHOOK}-tls",
        own=MACHINE_WEBHOOK,
        service=MACHINE_WEBHOOK,
        path="/validate/machines",
        group="kubenode.io",
        resource="machinecomponents",
    ),
    ChartWebhook(
        part="defender",
        values="guard",
        secret="kubenode-defender-guard-tls",
        own="kubenode-defender",
        service="kubenode-defender",
        path="/validate/nodes",
        group="",
        resource="nodes",
    ),
)
