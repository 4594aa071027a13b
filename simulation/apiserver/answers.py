"""What goes back to a client."""

from dataclasses import dataclass, field

from simulation.apiserver.store import encode


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """JSON, a status code, and warnings for the person behind the client."""

    body: bytes
    code: int = 200
    warnings: list[str] = field(default_factory=list)


SUCCESS = encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
