"""Sources, files and units of components on a real host, with packages built here."""

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.component_host import ComponentHost, wait
from support.component_packages import REPOSITORY, deb, serve, versions
from support.hosts import Hosts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

OLD, NEW = "1.0-1", "2.0-1"
OURS = "/etc/shop.d/10.toml"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("packages")
    return [
        *(deb(folder, name, version) for name in ("till", "lamp") for version in (OLD, NEW)),
        *(
            deb(folder, "shop", version, depends="till", conffile=f"version {version}\n")
            for version in (OLD, NEW)
        ),
    ]


@pytest.fixture(scope="module", params=["service", "pod"])
def host(
    request: pytest.FixtureRequest, hosts: Hosts, packages: list[Path]
) -> Iterator[ComponentHost]:
    """The same components through the service and through the Pod of the DaemonSet."""
    made = ComponentHost(hosts, f"parts-{request.param[0]}", in_pod=request.param == "pod")
    serve(made.host, packages)
    made.host.write("/etc/dpkg/dpkg.cfg.d/tests", "force-unsafe-io\n")
    yield made
    made.host.destroy()


def a_form(version: str = OLD, **more: Any) -> dict[str, Any]:
    packages = [{"name": name, "version": version} for name in ("shop", "till")]
    given = {
        "version": version.removesuffix("-1"),
        "source": {"type": "apt", "apt": {"packages": packages, "lockWait": "60s"}},
        "disruption": {},
        "files": [{"path": OURS, "content": "[till]\nopen = true\n", "ownership": "Keys"}],
        "units": [
            {"name": "shop.service", "drop_ins": [{"name": "a.conf", "content": "[Unit]\n"}]}
        ],
    }
    return {**given, **more}


def tarball(folder: Path, name: str, files: dict[str, str]) -> tuple[Path, str]:
    tree = folder / name
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    made = folder / f"{name}.tar.gz"
    subprocess.run(["tar", "-C", tree, "-czf", made, "."], check=True)
    return made, hashlib.sha256(made.read_bytes()).hexdigest()


def test_the_ports_hold_to_their_contract(host: ComponentHost, tmp_path: Path) -> None:
    given = []
    for name in ("one", "two"):
        made, digest = tarball(tmp_path, name, {f"bin/{name}": name, "bin/both": name})
        host.host.run("mkdir", "-p", "/srv/tarballs")
        (host.host.root / "srv/tarballs" / made.name).write_bytes(made.read_bytes())
        given.append((f"file:///srv/tarballs/{made.name}", digest))
    asked = {"package": "lamp", "versions": [OLD, NEW], "tarballs": given}
    assert host("contract", given=asked) == []
    left = host.host.run("find", "/opt/contract").stdout.split()
    assert left == ["/opt/contract"], "folders that we made, and links, go as well"


def test_f37_packages_move_as_one_and_are_held_against_a_foreign_upgrade(
    host: ComponentHost,
) -> None:
    assert host("apply", a_form()) == {"version": "1.0", "drift": []}
    assert host("look", a_form(NEW))["drift"][0][0] == "Version"
    host.host.run("apt-get", "--yes", "-o", "Dpkg::Use-Pty=0", "upgrade")
    assert versions(host.host, ["shop", "till"]) == {"shop": f"{OLD} hi", "till": f"{OLD} hi"}
    host.host.run("apt-mark", "unhold", "till")
    assert [kind for kind, *_ in host("look", a_form())["drift"]] == ["Hold"]
    host.host.run("apt-get", "--yes", "install", "till")
    kinds = [kind for kind, *_ in host("look", a_form())["drift"]]
    assert kinds == ["Version", "Hold"], "a foreign version is seen"
    assert host("apply", a_form())["drift"] == []
    assert versions(host.host, ["till"]) == {"till": f"{OLD} hi"}


def test_what_a_person_changed_of_a_configuration_stays_and_the_rest_is_new(
    host: ComponentHost,
) -> None:
    host("apply", a_form())
    host.host.write("/etc/shop.conf", "mine\n")
    assert host("apply", a_form(NEW)) == {"version": "2.0", "drift": []}
    assert host.host.read("/etc/shop.conf") == "mine\n"
    assert "2.0" in host.host.read("/usr/lib/systemd/system/shop.service")
    assert host("apply", a_form(OLD))["version"] == "1.0", "the way back"


def test_f35_what_is_there_is_asked_of_nobody(host: ComponentHost) -> None:
    host("apply", a_form())
    before = host.host.unit("shop", "InvocationID")
    stamp = host.host.run("stat", "-c", "%Y", OURS).stdout
    assert host("apply", a_form())["drift"] == []
    assert host.host.unit("shop", "InvocationID") == before
    assert host.host.run("stat", "-c", "%Y", OURS).stdout == stamp


def test_the_way_back_needs_no_repository_that_still_has_the_old_version(
    host: ComponentHost, packages: list[Path]
) -> None:
    host("stage", a_form(OLD))
    host("apply", a_form(OLD))
    host("stage", a_form(NEW))
    host("apply", a_form(NEW))
    serve(host.host, [one for one in packages if NEW in one.name])
    for package in packages:
        if OLD in package.name:
            host.host.run("rm", f"{REPOSITORY}/{package.name}")
    host.host.run("apt-get", "update")
    try:
        assert host("apply", a_form(OLD))["version"] == "1.0"
    finally:
        serve(host.host, packages)
        host.host.run("apt-get", "update")


@pytest.mark.parametrize("moment", ["preinst", "postinst"])
def test_f37_a_database_left_in_the_middle_is_repaired_first(
    host: ComponentHost, moment: str
) -> None:
    host("apply", a_form(OLD))
    hold = foreign_upgrade(host, moment)
    host.host.run("systemctl", "kill", "--signal=KILL", "foreign")
    wait(lambda: moment not in _processes(host), "the foreign one to be dead")
    host.host.run("rm", hold)
    broken = host("look", a_form(OLD))["drift"]
    assert ["Version", "driven", "till: not wholly installed"] in broken
    assert host("apply", a_form(OLD)) == {"version": "1.0", "drift": []}
    assert host.host.run("dpkg", "--audit").stdout == ""


def test_f37_the_lock_of_another_is_waited_for(host: ComponentHost) -> None:
    host("apply", a_form(OLD))
    hold = foreign_upgrade(host, "postinst")
    host.begin("apply", a_form(OLD))
    wait(lambda: _locked_out(host), "our dpkg to find the database locked")
    host.host.run("rm", hold)
    assert host.end() == {"version": "1.0", "drift": []}


def foreign_upgrade(host: ComponentHost, moment: str) -> str:
    """Somebody upgrades `till`, and is in this script of it; the file that holds it there."""
    hold = {"preinst": "/opt/unpack-till", "postinst": "/opt/hold-till"}[moment]
    host.host.run("apt-mark", "unhold", "till")
    host.host.write(hold, "")
    argv = ["apt-get", "--yes", "install", "till=2.0-1"]
    host.host.run("systemd-run", "--collect", "--unit=foreign", *argv)
    wait(lambda: moment in _processes(host), "a foreign dpkg in the middle")
    return hold


def _locked_out(host: ComponentHost) -> bool:
    told = ["--quiet", "--boot", "--grep=dpkg frontend lock was locked"]
    return bool(host.host.run("journalctl", *told, check=False).stdout)


def _processes(host: ComponentHost) -> str:
    return host.host.run("ps", "-eo", "args").stdout


def test_an_agent_killed_in_the_middle_of_dpkg_does_not_end_it_nor_begin_it_twice(
    host: ComponentHost,
) -> None:
    host("apply", a_form(OLD))
    host.host.run("rm", "-f", "/opt/configured-shop")
    host.host.write("/opt/hold-shop", "")
    host.begin("apply", a_form(NEW))
    wait(lambda: "shop.postinst" in _processes(host), "dpkg in the middle")
    host.kill()
    assert "dpkg" in _processes(host), "it goes on without the agent"
    host.begin("apply", a_form(NEW))
    host.host.run("rm", "/opt/hold-shop")
    assert host.end() == {"version": "2.0", "drift": []}
    assert host.host.read("/opt/configured-shop").split() == [NEW]


def test_what_ended_while_the_agent_was_dead_is_no_answer_to_a_later_install(
    host: ComponentHost,
) -> None:
    host("apply", a_form(OLD))
    host.host.write("/opt/hold-shop", "")
    host.begin("apply", a_form(NEW))
    wait(lambda: "shop.postinst" in _processes(host), "dpkg in the middle")
    host.kill()
    host.host.run("rm", "/opt/hold-shop")
    wait(lambda: "dpkg" not in _processes(host), "dpkg to end without the agent")
    assert host("apply", a_form(OLD))["version"] == "1.0"
    assert host("apply", a_form(NEW)) == {"version": "2.0", "drift": []}


def test_a_file_edited_by_hand_is_seen_at_once_and_foreign_keys_stay(host: ComponentHost) -> None:
    host("apply", a_form(OLD))
    host.begin("watch", a_form(OLD), ready="/var/lib/kubenode-agent/ready")
    host.wait_ready()
    host.host.write(OURS, "# mine\n[till]\nopen = false\nlimit = 3\n")
    assert host.end() == [OURS]
    assert host("look", a_form(OLD))["drift"] == [["File", OURS, "its content was changed"]]
    assert host("apply", a_form(OLD))["drift"] == []
    assert host.host.read(OURS) == "# mine\n[till]\nopen = true\nlimit = 3\n"
    host.host.run("chmod", "0666", OURS)
    assert host("look", a_form(OLD))["drift"] == [["File", OURS, "mode 0666"]]


def test_a_masked_a_stopped_and_a_disabled_unit_are_seen_and_put_right(
    host: ComponentHost,
) -> None:
    host("apply", a_form(OLD))
    for command, kinds in (
        ("disable", ["Unit"]),
        ("stop", ["RunState"]),
        ("mask --now", ["Unit", "RunState"]),
    ):
        host.host.run("systemctl", *command.split(), "shop.service")
        assert [kind for kind, *_ in host("look", a_form(OLD))["drift"]] == kinds, command
        assert host("apply", a_form(OLD))["drift"] == [], command
    assert host.host.unit("shop", "ActiveState") == "active"
    assert host.host.unit("shop", "UnitFileState") == "enabled"


def test_what_others_need_is_not_removed(host: ComponentHost) -> None:
    host.host.run("rm", "-f", OURS)  # another test may have left keys of others
    host("apply", a_form(OLD))
    alone = a_form(source={"type": "apt", "apt": {"packages": [{"name": "till", "version": OLD}]}})
    with pytest.raises(AssertionError, match="shop depends on till"):
        host("remove", {**alone, "units": [], "files": []})
    host("remove", a_form(OLD))
    assert versions(host.host, ["shop", "till"]) in ({}, {"shop": " un", "till": " un"})
    assert not (host.host.root / OURS.lstrip("/")).exists()
    assert not (host.host.root / "etc/systemd/system/shop.service.d/a.conf").exists()
