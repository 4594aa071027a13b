"""Starts Captain's pages in `kubenode run captain`, as its settings say."""

from collections.abc import Iterator
from functools import partial

from captain.operator import Captain
from captain.site.rights import ApiServerUsers
from captain.site.scene import CaptainBoard
from kubenode.cli.captain_settings import CaptainFlags
from kubenode.cli.dashboard_proxy import check_encryption, proxy_of
from kubenode.cli.settings import pem_files
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.access_reviews import AccessReviews
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect_as
from kubenode.runtime.process import CannotStart, Part
from kubenode.runtime.site.people import Writers
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.files import FileKeeper


def check_site(settings: CaptainFlags) -> None:
    """Raise CannotStart for settings that let anyone in or send tokens unencrypted."""
    if (settings.tls_cert_file is None) is not (settings.tls_key_file is None):
        raise CannotStart("--tls-cert-file and --tls-key-file belong together: give both, or none")
    if settings.dashboard_port is None:
        return
    proxy_of(settings)
    check_encryption(
        settings.dashboard_address,
        encrypted=settings.tls_cert_file is not None or settings.plain_http,
        remedy="--tls-cert-file",
    )


def build_site_parts(
    operator: Captain, kube: Kube, clock: Clock, settings: CaptainFlags
) -> Iterator[Part]:
    """Yield the parts that serve the pages; none without --dashboard-port."""
    if settings.dashboard_port is None:
        return
    # Without pages a start imports no web framework.
    from captain.site.server import CaptainSite
    from kubenode.runtime.site.server import SiteSettings

    context = None if settings.tls_cert_file is None else LiveContext()
    connect = partial(connect_as, kubeconfig=settings.kubeconfig, context=settings.context)
    site = CaptainSite(
        CaptainBoard(operator.clusters, operator.pipelines, operator.releases, clock),
        kube,
        clock,
        ApiServerUsers(AccessReviews(kube, clock)),
        Writers(kube, connect),
        SiteSettings(
            address=settings.dashboard_address,
            port=settings.dashboard_port,
            key_file=settings.dashboard_key_file,
            proxy=proxy_of(settings),
            context=context,
            namespace=settings.namespace,
            limits=settings.http_limits,
        ),
    )
    yield from site.parts
    if context is not None:
        keeper = FileKeeper(
            clock, context, pem_files(settings.tls_cert_file, settings.tls_key_file)
        )
        keeper.start("--tls-cert-file and --tls-key-file")
        yield keeper
