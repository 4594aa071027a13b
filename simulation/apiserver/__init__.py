"""The embedded API server, for `kubenode demo` and tests only.

It serves as much of Kubernetes as our programs and kubectl use, without user accounts, RBAC,
webhooks and CEL. What needs one of these needs a real cluster. The contract suite in
tests/integration/contract compares it with a real server.
"""

from simulation.apiserver.errors import ApiError
from simulation.apiserver.server import EmbeddedApiServer, ListenError

__all__ = ["ApiError", "EmbeddedApiServer", "ListenError"]
