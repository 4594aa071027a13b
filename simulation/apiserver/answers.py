"""Responses to clients."""

from dataclasses import dataclass, field

from simulation.apiserver.store import encode


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """A body in JSON, a status code, and warnings for the user of the client."""

    body: bytes
    code: int = 200
    warnings: list[str] = field(default_factory=list)


SUCCESS = encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
