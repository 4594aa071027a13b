"""The settings of the stream, for programs that run the Remedy operator."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubenode.cli.settings import CLUSTER_NAME, URL, InsightLinkFlags, path_of
from kubenode.runtime.settings_model import setting

if TYPE_CHECKING:
    from kubenode.runtime.stream.delivery import StreamReceiver
    from kubenode.runtime.stream.derivation import StreamIdentity

STREAM = "Stream of events"


@dataclass(frozen=True)
class StreamFlags(InsightLinkFlags):
    """Settings of the stream of what happens to jobs and permits."""

    stream_url: str = setting(
        "",
        "URL that receives the stream as CloudEvents; default: no stream.",
        STREAM,
        metavar="URL",
        pattern=f"^$|{URL}",
    )
    stream_token_file: str | None = setting(
        None, "File with the bearer token for --stream-url.", STREAM, metavar="FILE"
    )
    stream_ca_file: str | None = setting(
        None,
        "File with the certificate authorities to trust for --stream-url.",
        STREAM,
        metavar="FILE",
    )
    stream_cluster: str = setting(
        "cluster",
        "Name of this cluster in the stream; default: cluster.",
        STREAM,
        metavar="NAME",
        max_length=63,
        pattern=CLUSTER_NAME,
    )
    stream_user_names: bool = setting(
        True, "Name the users who decided about jobs in the stream; default: yes.", STREAM
    )
    stream_outbox: int = setting(
        20_000,
        "Maximum number of events that wait for the receiver; default 20000.",
        STREAM,
        metavar="NUMBER",
        ge=1000,
        le=1_000_000,
    )

    @property
    def stream_receiver(self) -> "StreamReceiver":
        from kubenode.runtime.stream.delivery import StreamReceiver

        return StreamReceiver(
            self.stream_url, path_of(self.stream_token_file), path_of(self.stream_ca_file)
        )

    @property
    def stream_identity(self) -> "StreamIdentity":
        from kubenode.runtime.stream.derivation import StreamIdentity

        return StreamIdentity(self.stream_cluster, self.stream_user_names)
