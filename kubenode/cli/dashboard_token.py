"""The bearer token with which a person logs in to the dashboard: the person's own, or that of a
service account that the person may use.
"""

from typing import Any

from kubenode.cli.exits import Refusal
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound
from kubenode.runtime.kube.transport import CredentialsTransport

TOKEN_SECONDS = 3600


class LoginToken:
    """Source of the token. Tokens expire, so it is read again for each login.

    account: a service account, as NAME of `namespace` or NAMESPACE/NAME. "": the token of the
        kubeconfig.
    """

    def __init__(
        self, kube: Kube, transport: CredentialsTransport, namespace: str, account: str = ""
    ) -> None:
        self._kube, self._transport = kube, transport
        named_namespace, _, self._account = account.rpartition("/")
        self._namespace = named_namespace or namespace

    async def read(self, *, fresh: bool = False) -> str:
        """Return a valid token. Raises Refusal, KubeError or CredentialsError.

        fresh: do not return the token of an earlier call.
        """
        if self._account:
            return await self._issued()
        token = await self._transport.bearer_token(fresh=fresh)
        if not token:
            raise Refusal(
                "these credentials of the kubeconfig have no bearer token, which the dashboard"
                " needs (they are a client certificate or a password): name a service account that"
                " you may use with --service-account NAMESPACE/NAME. ClusterRole kubenode-viewer of"
                " charts/kubenode/people.yaml lets it read, kubenode-operator lets it act"
            )
        return token

    async def _issued(self) -> str:
        """Return a new token of the service account, by TokenRequest."""
        named = f"service account {self._account} of namespace {self._namespace}"
        request: dict[str, Any] = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        path = paths.resource(
            "/api/v1", "serviceaccounts",
            namespace=self._namespace, name=self._account, subresource="token",
        )  # fmt: skip
        try:
            answer = await self._kube.create(path, request)
        except NotFound as error:
            text = f"--service-account: {named} does not exist; create it, or name another one"
            raise Refusal(text) from error
        except Forbidden as error:
            raise Refusal(
                f"--service-account: you may not create tokens of {named}: that takes the right to"
                " create serviceaccounts/token; name another one, or ask an administrator"
            ) from error
        return str(answer["status"]["token"])
