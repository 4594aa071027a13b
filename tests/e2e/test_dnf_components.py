"""Components of dnf on a real host: real dnf and rpm, with packages built there."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.component_host import ComponentHost, wait
from support.component_rpms import serve_rpms
from support.host_image import dnf_image
from support.hosts import Hosts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

OLD, NEW = "1.0-1", "2.0-1"
DNF = ("dnf", "--assumeyes", "--quiet")


@pytest.fixture(scope="module")
def host(hosts: Hosts) -> Iterator[ComponentHost]:
    made = ComponentHost(hosts, "dnf", dnf_image())
    packages = [(name, version) for name in ("shop", "till") for version in ("1.0", "2.0")]
    serve_rpms(made.host, packages, needs={"shop": "till"})
    yield made
    made.host.destroy()


@pytest.fixture(autouse=True)
def _from_nothing(host: ComponentHost) -> None:
    """Whatever test came before: neither package is there, and nothing is locked."""
    host.host.run("dnf", "--quiet", "versionlock", "clear")
    if versions(host):
        host.host.run(*DNF, "remove", *versions(host))


def a_form(version: str, *names: str) -> dict[str, Any]:
    packages = [{"name": name, "version": version} for name in names or ("shop", "till")]
    return {
        "version": version.removesuffix("-1"),
        "source": {"type": "dnf", "dnf": {"packages": packages, "lockWait": "60s"}},
        "disruption": {},
        "files": [],
        "units": [] if names else [{"name": "shop.service"}],
    }


def versions(host: ComponentHost) -> dict[str, str]:
    asked = ("rpm", "--query", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}\\n")
    lines = host.host.run(*asked, "shop", "till", check=False).stdout.splitlines()
    return {name: version for name, version in (line.split(" ", 1) for line in lines)}


def test_the_ports_hold_to_their_contract(host: ComponentHost) -> None:
    given = {"package": "till", "versions": [OLD, NEW], "manager": "dnf"}
    assert host("contract", given=given) == []


def test_f37_packages_move_as_one_and_are_held_against_a_foreign_change(
    host: ComponentHost,
) -> None:
    assert host("apply", a_form(OLD)) == {"version": "1.0", "drift": []}
    assert host("apply", a_form(NEW)) == {"version": "2.0", "drift": []}
    host.host.run(*DNF, "distro-sync")
    assert versions(host) == {"shop": NEW, "till": NEW}, "held where we went, not where we were"
    running = host.host.unit("shop", "InvocationID")
    assert host("apply", a_form(NEW))["drift"] == []
    assert host.host.unit("shop", "InvocationID") == running, "what is there is asked of nobody"
    host.host.run("dnf", "--quiet", "versionlock", "delete", "till")
    assert [kind for kind, *_ in host("look", a_form(NEW))["drift"]] == ["Hold"]
    host.host.run(*DNF, "--disableplugin=versionlock", "downgrade", "shop", "till")
    kinds = [kind for kind, *_ in host("look", a_form(NEW))["drift"]]
    assert kinds == ["Version", "Hold"], "a foreign version is seen"
    assert host("apply", a_form(NEW))["drift"] == []


def test_what_others_need_is_not_removed(host: ComponentHost) -> None:
    host("apply", a_form(OLD))
    with pytest.raises(AssertionError, match="till is needed by"):
        host("remove", a_form(OLD, "till"))
    host("remove", a_form(OLD))
    assert host.host.run("rpm", "--query", "shop", "till", check=False).returncode == 2
    assert host.host.run("dnf", "--quiet", "versionlock", "list").stdout.strip() == ""


def test_an_agent_killed_in_the_middle_of_rpm_does_not_end_it_nor_begin_it_twice(
    host: ComponentHost,
) -> None:
    host("apply", a_form(OLD))
    host.host.run("rm", "-f", "/opt/configured-shop")
    host.host.write("/opt/hold-shop", "")
    host.begin("apply", a_form(NEW))
    wait(lambda: host.host.run("pgrep", "-f", "rpm-tmp", check=False).stdout, "rpm in the middle")
    host.kill()
    assert host.host.run("pgrep", "-f", "rpm-tmp").stdout, "it goes on without the agent"
    host.begin("apply", a_form(NEW))
    host.host.run("rm", "/opt/hold-shop")
    assert host.end() == {"version": "2.0", "drift": []}
    assert host.host.read("/opt/configured-shop").split() == ["2.0"]
