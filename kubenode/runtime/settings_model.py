"""Model of the settings of a program: the command line, the variables and the file derive from it.

A program is a frozen dataclass whose fields are declared with `setting`. The name of a field gives
the other names: `log_level` is the flag --log-level, the variable KUBENODE_LOG_LEVEL and the key
`logLevel` of the file. The command line imports this module to print `--help`, so nothing heavy is
imported here; `kubenode.runtime.settings` reads and validates values.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Literal

PREFIX = "KUBENODE_"
SPEC = "setting"
"""Key of the metadata of a field under which its SettingSpec is stored."""

CLUSTER = "Cluster"
LOGS = "Logs, health and metrics"

Check = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class SettingSpec:
    """What the field of a setting declares besides its type, default, help text and bounds.

    panel: heading of the flag in `--help`; "": the setting has no flag
    flags: names of the flag; none: derived from the name of the field
    metavar: placeholder of the value in `--help`; None: the type
    unit: of a number, such as seconds
    check: raises ValueError for a value that the program cannot use
    """

    panel: str
    flags: tuple[str, ...]
    metavar: str | None
    unit: str
    check: Check | None


def setting(
    default: object,
    text: str,
    panel: str = "",
    *flags: str,
    metavar: str | None = None,
    unit: str = "",
    check: Check | None = None,
    **bounds: object,
) -> Any:
    """Declare a setting.

    text: help text, a sentence
    bounds: arguments of pydantic.Field: ge, gt, le, min_length, max_length, pattern
    """
    spec = SettingSpec(panel, flags, metavar, unit, check)
    return field(default=default, metadata={"description": text, **bounds, SPEC: spec})


def port(default: int | None, text: str, panel: str) -> Any:
    """Declare the setting of a port."""
    return setting(default, text, panel, ge=0, le=65535)


@dataclass(frozen=True)
class ProcessSettings:
    """Settings of every program. Programs add fields in a subclass."""

    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "Log level: debug, info, warning or error.", LOGS
    )
    log_json: bool | None = setting(
        None,
        "Write logs as JSON; default: unless standard error is a terminal.",
        LOGS,
        "--log-json/--log-text",
    )
    health_address: str = setting(
        "127.0.0.1", "Address of /healthz, /readyz and /metrics.", LOGS, metavar="ADDRESS"
    )
    health_port: int = port(
        8081,
        "Port of /healthz, /readyz and /metrics; 0 selects a free port.",
        LOGS,
    )


@dataclass(frozen=True)
class Settings(ProcessSettings):
    """Settings of every program that works on a cluster."""

    kubeconfig: str | None = setting(
        None,
        "Kubeconfig file; default: $KUBECONFIG, ~/.kube/config, in-cluster.",
        CLUSTER,
        metavar="FILE",
    )
    context: str | None = setting(None, "Context of the kubeconfig.", CLUSTER, metavar="NAME")
    namespace: str = setting(
        "kubenode-system",
        "Namespace of the Leases of the program.",
        CLUSTER,
        *("--namespace", "-n"),
        metavar="NAME",
        min_length=1,
        max_length=63,
    )
    lease_seconds: float = setting(
        15.0, "Time to live of the Lease of the leader.", unit="seconds", ge=3.0, le=600.0
    )
    request_rate: float = setting(
        500.0, "Maximum rate of requests to the API server.", unit="requests per second", gt=0
    )
    request_burst: float = setting(
        1000.0, "Requests to the API server that may exceed the rate at once.", ge=1
    )
    gzip: bool = setting(
        False, "Request compressed answers from the API server; of use over a slow network only."
    )


def declared(kind: type[ProcessSettings]) -> Mapping[str, Field[Any]]:
    """Return the fields of a model by name."""
    return {each.name: each for each in fields(kind)}


def spec_of(each: Field[Any]) -> SettingSpec:
    spec: SettingSpec = each.metadata[SPEC]
    return spec


def variable_of(name: str) -> str:
    return f"{PREFIX}{name.upper()}"


def flag_of(name: str) -> str:
    """Return the long flag of a setting, as error messages name it."""
    return f"--{name.replace('_', '-')}"


def key_of(name: str) -> str:
    """Return the key of a setting in the file."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
