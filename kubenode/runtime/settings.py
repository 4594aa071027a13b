"""Settings that all central programs share: flags, then KUBENODE_* variables, then defaults.

They are validated once, at start. A wrong value ends the process with a sentence that names the
flag, the variable, the given value and the right form. The agent does not load this module, because
of pydantic.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from kubenode.runtime.process import CannotStart

PREFIX = "KUBENODE_"

S = TypeVar("S", bound="Settings")


class SettingsError(CannotStart):
    """Invalid settings, one line for each."""


class Settings(BaseSettings):
    """Programs add their own fields in a subclass and read it with `load`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    kubeconfig: str | None = Field(None, description="path of a kubeconfig; else in-cluster")
    context: str | None = Field(None, description="context of the kubeconfig; else its current one")
    namespace: str = Field(
        "kubenode-system", min_length=1, max_length=63, description="where our Leases live"
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_json: bool | None = Field(None, description="JSON logs; default: if stderr is no terminal")
    health_address: str = Field("127.0.0.1", description="where /healthz, /readyz, /metrics listen")
    health_port: int = Field(8081, ge=0, le=65535, description="0 takes a free port")
    lease_seconds: float = Field(15.0, ge=3.0, le=600.0, description="ttl of the leader's Lease")
    request_rate: float = Field(500.0, gt=0, description="bound on API requests per second")
    request_burst: float = Field(1000.0, ge=1, description="API requests that may go at once")
    gzip: bool = Field(False, description="compress API answers; worth it over a WAN only")


def load(kind: type[S], flags: Mapping[str, Any] | None = None) -> S:
    """Read settings of `kind`; a flag that is None was not given. Raises SettingsError."""
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        return kind(**given)
    except ValidationError as error:
        lines = [_line(kind, problem, given) for problem in error.errors()]
        raise SettingsError("\n".join(lines)) from error


def _line(kind: type[Settings], problem: Any, given: Mapping[str, Any]) -> str:
    field = ".".join(str(part) for part in problem["loc"])
    flag, variable = f"--{field.replace('_', '-')}", f"{PREFIX}{field.upper()}"
    name = flag if field in given else variable
    if field not in kind.model_fields:
        known = ", ".join(sorted(kind.model_fields))
        return f"{name}: there is no such setting; there are: {known}"
    text = problem["msg"][:1].lower() + problem["msg"][1:]
    about = kind.model_fields[field].description
    hint = f" ({about})" if about else ""
    return f"{name}={problem['input']!r}: {text}; set {flag} or {variable}{hint}"
