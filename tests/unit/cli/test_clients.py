"""The clients of one API server, main and Lease, tell each other that it is back."""

from pathlib import Path

from prometheus_client import CollectorRegistry
from support.clock import FakeClock
from support.command import kubeconfig

from kubenode.cli.program import clients
from kubenode.cli.remedy_settings import RemedyFlags
from kubenode.runtime.settings import load
from kubenode.runtime.telemetry.metrics import RuntimeMetrics


async def test_an_outage_that_is_over_for_the_lease_is_over_for_all(tmp_path: Path) -> None:
    """Informers sat out up to 10 s of their own, though a renewal had long gone through."""
    path = kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    settings = load(RemedyFlags, {"kubeconfig": str(path)})
    main, lease = clients(settings, RuntimeMetrics(CollectorRegistry()), FakeClock())
    try:
        main.outage.failed()
        over = main.outage.ended
        lease.outage.succeeded()
        assert over.is_set()
        assert not main.outage.down
    finally:
        await main.close()
        await lease.close()
