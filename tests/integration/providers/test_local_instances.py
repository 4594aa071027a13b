"""Machines made by a command of the site's own, over a rack whose hosts are of paper."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.host_rack import HostRack
from support.instance_contract import (
    CLUSTER,
    InstanceContract,
    Trouble,
    an_order,
)
from support.paper_hosts import PaperHost

from kubenode.api.v1alpha1.machinework import MachineOperationType as Type
from kubenode.providers.instances import ErrorCode, InstanceError, Instances
from kubenode.providers.local.instances import LocalInstances
from kubenode.providers.local.power import PREFIX

pytestmark = pytest.mark.integration


class RackWorld:
    """kept  every host that was booted"""

    config: dict[str, Any] = {"memory": "512M"}  # noqa: RUF012
    bad_config: dict[str, Any] = {"a b": 1}  # noqa: RUF012
    foreign = "aws:///eu-west-1a/i-0123456789abcdef0"
    troubles = frozenset(Trouble) - {Trouble.THROTTLED}
    secrets: tuple[str, ...] = ()
    page = 0

    def __init__(self, folder: Path, command: list[str]) -> None:
        self._command = command
        self.kept: dict[str, PaperHost] = {}
        self.rack = HostRack(folder, self._boot)
        self.stranger = self.provider_id("theirs")
        self.missing = self.provider_id("w99")
        self.instances: Instances = self.fresh()

    def _boot(self, name: str) -> PaperHost:
        assert name not in self.kept or self.kept[name].destroyed, "two hosts of one name"
        host = self.kept[name] = PaperHost()
        return host

    def provider_id(self, name: str) -> str:
        return f"{PREFIX}{self.rack.machine(name)}"

    def fresh(self, seconds: float = 50) -> Instances:
        command = [*self._command, str(self.rack.folder)]
        return LocalInstances(command, timeout=timedelta(seconds=seconds))

    def alive(self) -> set[str]:
        return {self.provider_id(name) for name in self.rack.made}

    def user_data(self, provider_id: str) -> str:
        return self.rack.made[provider_id.rpartition("/")[2]].user_data

    async def settle(self) -> None:
        self.rack.wait()

    def lose_the_answer(self) -> None:
        self.rack.lose = True

    def hide_the_newest(self) -> None:
        """A rack's list does not lag."""

    def begin(self, trouble: Trouble) -> None:
        if trouble is Trouble.REFUSED_CONNECTION:
            self.instances = LocalInstances([*self._command, "/nonexistent"])
        else:
            self.rack.trouble = trouble
        if trouble is Trouble.SILENT:
            self.instances = self.fresh(1)

    def calm(self) -> None:
        self.rack.trouble = None
        self.instances = self.fresh()


class TestLocalInstances(InstanceContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[RackWorld]:
        world = RackWorld(tmp_path, HostRack(tmp_path, PaperHost).command[:-1])
        with world.rack:
            stranger = world.rack.obey(
                {
                    "verb": "create",
                    "words": ["theirs", ""],
                    "given": '{"cluster": "", "machine": "", "userData": "", "config": {}}',
                }
            )
            assert stranger["code"] == 0
            world.rack.wait()
            yield world
        assert all(host.destroyed for host in world.kept.values())

    async def test_a_host_follows_its_user_data(self, world: RackWorld) -> None:
        given = (
            "#cloud-config\nwrite_files:\n- {path: /a, permissions: '0600', content: b}\n"
            "runcmd:\n- [sh, /a]\n"
        )
        await world.instances.create(an_order(world, user_data=given))
        await world.settle()
        write = ("install", "-D", "-m", "0600", "/dev/stdin", "/a")
        assert world.kept["w1"].ran == [(write, "b"), (("sh", "/a"), None)]

    async def test_a_request_is_done_once(self, world: RackWorld) -> None:
        made = await world.instances.create(an_order(world))
        await world.settle()
        first = world.kept["w1"]
        for request in ("job-1", "job-1", "job-2"):
            await world.instances.operate(made.provider_id, CLUSTER, Type.REDEPLOY, request)
            await world.settle()
        assert (first.reboots, first.destroyed) == (2, False)
        for _ in range(2):
            await world.instances.operate(made.provider_id, CLUSTER, Type.REIMAGE, "job-3")
            await world.settle()
        assert first.destroyed and world.kept["w1"].ran == first.ran != []

    async def test_what_another_cluster_made_is_not_operated_on(self, world: RackWorld) -> None:
        for machine, code in (
            (world.stranger, ErrorCode.FAILED_PRECONDITION),
            (world.missing, ErrorCode.NOT_FOUND),
        ):
            with pytest.raises(InstanceError) as told:
                await world.instances.operate(machine, CLUSTER, Type.REDEPLOY, "job-1")
            assert told.value.code is code
        assert world.kept["theirs"].reboots == 0

    async def test_a_name_that_another_has_is_not_taken(self, world: RackWorld) -> None:
        with pytest.raises(InstanceError, match="of another token") as told:
            await world.instances.create(an_order(world, name="theirs"))
        assert told.value.code is ErrorCode.FAILED_PRECONDITION

    @pytest.mark.parametrize(
        "printed",
        ["", "{}", "[]", '{"id": "../x", "state": "running"}', '{"id": "a/b", "state": 1}', "ok"],
    )
    async def test_what_is_no_instance_is_not_taken_for_one(
        self, world: RackWorld, tmp_path: Path, printed: str
    ) -> None:
        script = tmp_path / "odd"
        script.write_text(f"cat >/dev/null; echo '{printed}'\n")
        odd = LocalInstances(["/bin/sh", str(script)])
        with pytest.raises(InstanceError) as told:
            await odd.create(an_order(world))
        assert told.value.code is ErrorCode.UNKNOWN
        with pytest.raises(InstanceError):
            await odd.get(world.missing)

    async def test_a_machine_of_another_token_is_not_taken_for_ours(
        self, world: RackWorld, tmp_path: Path
    ) -> None:
        script = tmp_path / "odd"
        other = '{"id": "a/w1", "state": "running", "token": "x", "cluster": "shop"}'
        script.write_text(f"cat >/dev/null; echo '{other}'\n")
        with pytest.raises(InstanceError, match="with token 'x'") as told:
            await LocalInstances(["/bin/sh", str(script)]).create(an_order(world))
        assert told.value.code is ErrorCode.INTERNAL

    async def test_a_word_that_is_neither_gone_nor_in_progress_proves_nothing(
        self, world: RackWorld, tmp_path: Path
    ) -> None:
        script = tmp_path / "odd"
        one = '{"id": "a/w1", "state": "running", "cluster": "shop"}'
        script.write_text(f"[ $1 = get ] && echo '{one}' || echo done\n")
        odd = LocalInstances(["/bin/sh", str(script)])
        with pytest.raises(InstanceError, match="`gone` or `in-progress`") as told:
            await odd.delete(f"{PREFIX}a/w1", CLUSTER)
        assert told.value.code is ErrorCode.UNKNOWN
