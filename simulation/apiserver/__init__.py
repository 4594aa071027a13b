"""The embedded API server, for `kubenode demo` and tests only: enough Kubernetes for our programs
and kubectl, without authentication, RBAC, webhooks and CEL. What needs one of these needs a real
cluster. The contract suite in tests/integration/contract holds it to what a real server does."""

from simulation.apiserver.errors import ApiError
from simulation.apiserver.server import EmbeddedApiServer, ListenError

__all__ = ["ApiError", "EmbeddedApiServer", "ListenError"]
