"""A machine's component on a real host, by the agent as it is installed: packages built here."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agent_jobs import a_machine
from support.agent_service import AGENT, AgentHost, boot_with_agent
from support.component_packages import deb, serve
from support.control_plane import ControlPlane
from support.hosts import Hosts

from kubenode.runtime.components import wire
from kubenode.runtime.components.hashes import config_hash, revision
from kubenode.runtime.components.render import rendered

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

NAME, UNIT, FILE = "parts-1", "shop.service", "/etc/shop.d/10.conf"
SECONDS = 120.0


def a_component(version: str) -> dict[str, Any]:
    package = {"name": "shop", "version": f"{version}-1"}
    files = [{"path": FILE, "content": {"inline": f"of {version}\n"}, "onChange": "Reload"}]
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MachineComponent",
        "metadata": {"name": f"shop-{version}"},
        "spec": {
            "component": "shop",
            "version": version,
            "source": {"type": "apt", "apt": {"packages": [package]}},
            "files": files,
            "units": [{"name": UNIT}],
            "healthDeadline": "20s",
        },
    }


class Site:
    """The host, its Machine, and what a set would write to it."""

    def __init__(self, made: AgentHost, cp: ControlPlane) -> None:
        self.made, self.host, self.cp = made, made.host, cp

    def assign(self, version: str) -> None:
        made = a_component(version)
        spec = wire.spec_of(made["spec"])
        entry = {
            "name": "shop",
            "component": made["metadata"]["name"],
            "revision": revision(spec, {}, "Running", {}),
            "configHash": config_hash(rendered(spec, {}, {}, {})),
        }
        permit = {
            "name": "p-1",
            "components": ["shop"],
            "maxDisruption": "Drain",
            "startBefore": "2099-01-01T00:00:00Z",
        }
        patch = json.dumps({"spec": {"components": [entry], "permit": permit}})
        self.cp.kubectl("patch", "knm", NAME, "--type=merge", "-p", patch)

    def told(self) -> dict[str, Any]:
        machine = self.cp.get(f"/apis/kubenode.io/v1alpha1/machines/{NAME}")
        found = machine.get("status", {}).get("components", [])
        return found[0] if found else {}

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < end, (what, self.told(), self.host.journal(AGENT)[-4000:])
            time.sleep(0.1)

    def until_state(self, state: str, version: str) -> None:
        def so() -> bool:
            told = self.told()
            return (told.get("state"), told.get("version")) == (state, version)

        self.until(so, f"{state} at {version}")

    @property
    def configured(self) -> list[str]:
        """Versions in the order in which the package's own script was run to its end."""
        return self.host.read("/opt/configured-shop").split()


@pytest.fixture(scope="module")
def site(
    hosts: Hosts, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("packages")
    made = boot_with_agent(hosts, control_plane, NAME)
    bad = "#!/bin/sh\nexit 1\n"
    packages: list[Path] = [deb(folder, "shop", version) for version in ("1.0-1", "1.1-1")]
    serve(made.host, [*packages, deb(folder, "shop", "1.2-1", program=bad)])
    made.host.write("/etc/dpkg/dpkg.cfg.d/tests", "force-unsafe-io\n")
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(a_machine(NAME)))
    for version in ("1.0", "1.1", "1.2"):
        text = json.dumps(a_component(version))
        control_plane.kubectl("create", "-f", "-", stdin=text)
    yield Site(made, control_plane)
    control_plane.kubectl("delete", "knm", NAME)
    control_plane.kubectl("delete", "knc", "shop-1.0", "shop-1.1", "shop-1.2")
    made.host.destroy()


def test_invariant_08_killed_in_the_middle_of_dpkg_and_a_bad_version_taken_back(
    site: Site,
) -> None:
    site.assign("1.0")
    site.until_state("Healthy", "1.0")
    assert site.host.read(FILE) == "of 1.0\n"
    assert site.host.unit(UNIT, "ActiveState") == "active"

    site.host.run("rm", "-f", "/opt/configured-shop")
    site.host.write("/opt/hold-shop", "")
    site.assign("1.1")
    dpkg = ("pgrep", "-f", "shop.postinst")
    site.until(lambda: site.host.run(*dpkg, check=False).returncode == 0, "dpkg in its middle")
    site.host.run("systemctl", "kill", "--signal=KILL", AGENT)
    site.host.run("rm", "/opt/hold-shop")
    site.until_state("Healthy", "1.1")
    assert site.configured == ["1.1-1"]
    assert site.host.read(FILE) == "of 1.1\n"

    site.assign("1.2")
    site.until_state("RolledBack", "1.1")
    assert site.host.read(FILE) == "of 1.1\n" and UNIT in site.told()["message"]
    assert site.host.unit(UNIT, "ActiveState") == "active"


def test_a_file_edited_by_hand_comes_back_and_a_masked_unit_is_healed(site: Site) -> None:
    site.assign("1.1")
    site.until_state("Healthy", "1.1")
    site.host.write(FILE, "by hand\n")
    site.until(lambda: site.host.read(FILE) == "of 1.1\n", "the file to come back")
    site.host.run("systemctl", "mask", "--now", UNIT)
    site.until(lambda: site.host.unit(UNIT, "ActiveState") == "active", "the unit to run again")
    site.until_state("Healthy", "1.1")
