"""Starts Host Doctor's listener in a program that runs the remedy operator.

Settings that would let everybody in end the program with an error before anything starts.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from starlette.routing import BaseRoute

from kubenode.cli.bundle_access import BundleAccess
from kubenode.cli.permit_client import require_files
from kubenode.cli.remedy_settings import HostDoctorFlags
from kubenode.cli.settings import local, path_of
from kubenode.runtime.audit import Audit
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.reviews import Unverified
from kubenode.runtime.process import CannotStart, Part
from kubenode.runtime.tls.files import PemFiles
from kubenode.runtime.token_files import SHORTEST_TOKEN, read_tokens
from remedy.bundles.places import BadPlace, store_at
from remedy.bundles.port import BundleStore, StoreFailed
from remedy.bundles.routes import BundleRoutes
from remedy.hostdoctor.app import DeliveryEndpoints
from remedy.hostdoctor.gate import DeliveryAuthenticatorSettings
from remedy.hostdoctor.server import HostDoctorListener, HostDoctorSettings
from remedy.operator import RemedyOperator

log = logging.getLogger(__name__)

FILES = ("host_doctor_client_ca_file", "host_doctor_cert_file", "host_doctor_key_file")


def checked_host_doctor(settings: HostDoctorFlags) -> None:
    """Raise CannotStart for contradictory settings and for unreadable files."""
    if settings.host_doctor_port is None:
        if settings.bundles is not None:
            raise CannotStart("--bundles: agents hand them in there: give --host-doctor-port too")
        return
    bundle_store(settings)
    if (settings.host_doctor_cert_file is None) is not (settings.host_doctor_key_file is None):
        raise CannotStart(
            "--host-doctor-cert-file and --host-doctor-key-file belong together: give both, or none"
        )
    require_files(settings, FILES)
    _check_tokens(settings.host_doctor_tokens)
    ca, plain = settings.host_doctor_client_ca_file, settings.host_doctor_plain_http
    if plain and (ca or settings.host_doctor_cert_file):
        raise CannotStart(
            "--host-doctor-plain-http: without TLS nobody sees a certificate; take it away, or"
            " --host-doctor-cert-file and --host-doctor-client-ca-file"
        )
    if settings.host_doctor_clients and not ca:
        raise CannotStart("--host-doctor-clients needs --host-doctor-client-ca-file as well")
    where = settings.host_doctor_address
    if not local(where) and not settings.host_doctor_tokens and not ca:
        raise CannotStart(
            f"--host-doctor-address {where}: others than this host reach it, and anyone might tell"
            " it anything: give --host-doctor-token-files or --host-doctor-client-ca-file"
        )


def _check_tokens(files: Sequence[Path]) -> None:
    try:
        tokens = read_tokens(files)
    except Unverified as error:
        raise CannotStart(f"--host-doctor-token-files: {error}") from error
    if files and not tokens:
        raise CannotStart(
            f"--host-doctor-token-files: no line has {SHORTEST_TOKEN} or more characters, and a"
            " shorter token could be guessed; make one with `openssl rand -hex 32`"
        )


def host_doctor_parts(
    operator: RemedyOperator, kube: Kube, clock: Clock, settings: HostDoctorFlags, audit: Audit
) -> Sequence[Part]:
    """Return the parts of the listener; none without --host-doctor-port. Raises CannotStart.

    settings: must have passed `checked_host_doctor`.
    """
    if settings.host_doctor_port is None:
        return ()
    tokens, ca = settings.host_doctor_tokens, settings.host_doctor_client_ca_file
    if anyone := not tokens and not ca:
        log.warning(
            "whoever is on this host may tell Host Doctor anything: give --host-doctor-token-files"
            " to change that",
            extra={"address": settings.host_doctor_address},
        )
    made = HostDoctorSettings(
        port=settings.host_doctor_port,
        address=settings.host_doctor_address,
        namespace=settings.namespace,
        names=settings.host_doctor_names,
        tls=not settings.host_doctor_plain_http,
        files=PemFiles(
            path_of(settings.host_doctor_cert_file),
            path_of(settings.host_doctor_key_file),
            path_of(ca),
        ),
        gate=DeliveryAuthenticatorSettings(
            tokens, settings.host_doctor_allowed, anyone, settings.host_doctor_token_audience
        ),
        limits=settings.http_limits,
    )
    metrics = operator.host_doctor_metrics
    store = bundle_store(settings)
    access = BundleAccess(kube, clock, audit, settings.host_doctor_token_audience)

    def more(ends: DeliveryEndpoints) -> Sequence[BaseRoute]:
        return () if store is None else BundleRoutes(store, ends.may_hand_in, access.check).routes

    parts = HostDoctorListener(operator.desk, kube, clock, metrics, made, audit, more=more).parts
    return parts if store is None else [*parts, StoreCheck(store)]


class StoreCheck:
    """A Part that ends at once.

    It warns if bundles cannot be stored; repairs do not need the store.
    """

    name = "check of the store of bundles"

    def __init__(self, store: BundleStore) -> None:
        self._store = store

    async def run(self) -> None:
        try:
            await self._store.check()
        except StoreFailed as error:
            log.warning("bundles cannot be kept now", extra={"why": str(error)})


def bundle_store(settings: HostDoctorFlags) -> BundleStore | None:
    """Return the store of diagnostics bundles; None keeps them on their hosts.

    Raises CannotStart.
    """
    if settings.bundles is None:
        return None
    try:
        return store_at(settings.bundles, settings.bundles_endpoint)
    except BadPlace as error:
        raise CannotStart(f"--bundles: {error}") from error
