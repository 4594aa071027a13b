"""The settings of `kubenode run insight`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kubenode.cli.settings import HttpFlags, path_of, pem_files
from kubenode.runtime.settings_model import LOGS, port, setting

if TYPE_CHECKING:
    from kubenode.runtime.tls.files import PemFiles

STORE = "Store"
API = "API of Insight"


def _check_url(text: str) -> None:
    """Raise ValueError for a database that is not supported."""
    from kubenode.cli.insight_service import require_extra

    require_extra()
    from insight.store.database import database_url

    database_url(text)


@dataclass(frozen=True)
class InsightFlags(HttpFlags):
    """Settings of `kubenode run insight`."""

    health_port: int = port(
        8086, "Port of /healthz, /readyz and /metrics; 0 selects a free port.", LOGS
    )
    database_url: str = setting(
        "sqlite:///kubenode-insight.db",
        "Database: sqlite:///FILE or postgresql://USER@HOST/NAME; default: a file of SQLite in the"
        " current folder.",
        STORE,
        metavar="URL",
        check=_check_url,
    )
    database_url_file: str | None = setting(
        None,
        "File with the URL of the database, for one with a password; overrides --database-url.",
        STORE,
        metavar="FILE",
    )
    retention_days: int = setting(
        400,
        "Age in days at which events are deleted; default 400.",
        STORE,
        metavar="NUMBER",
        unit="days",
        ge=1,
        le=36_500,
    )
    insight_port: int = port(8087, "Port of the API; 0 selects a free port.", API)
    insight_address: str = setting(
        "127.0.0.1", "Address of the API; default 127.0.0.1.", API, metavar="ADDRESS"
    )
    sender_token_file: str | None = setting(
        None, "File with the bearer tokens of clusters, one per line.", API, metavar="FILE"
    )
    reader_token_file: str | None = setting(
        None, "File with the bearer tokens of readers, one per line.", API, metavar="FILE"
    )
    insight_cert_file: str | None = setting(
        None, "File with the certificate for HTTPS.", API, metavar="FILE"
    )
    insight_key_file: str | None = setting(
        None, "File with the private key of --insight-cert-file.", API, metavar="FILE"
    )
    insight_plain_http: bool = setting(
        False, "Serve other hosts without TLS, where a service mesh encrypts.", API
    )

    @property
    def token_files(self) -> list[Path]:
        return [Path(file) for file in (self.sender_token_file, self.reader_token_file) if file]

    @property
    def insight_files(self) -> "PemFiles":
        return pem_files(self.insight_cert_file, self.insight_key_file)

    @property
    def url_file(self) -> Path | None:
        return path_of(self.database_url_file)
