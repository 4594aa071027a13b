"""Images, containers and sandboxes, through crictl; images also through containerd's `ctr`.

What was created through the container runtime interface is removed only through it, because the
runtime would not notice otherwise. Images are the exception: containerd notifies its own plugin of
them.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from agent.host import HostError
from agent.host.containers import Container, Image, Sandbox
from agent.host.real.commands import Commands, HostCommand

SECONDS = 30.0
REMOVE_SECONDS = 60.0
FOLDERS = ("/var/lib/containerd", "/var/lib/containers", "/var/lib/docker")
_CTR = ("ctr", "--namespace", "k8s.io")
_MISSING = 127
_PINNED_LABEL = "io.cri-containerd.pinned=pinned"
_SIZES = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}


class RealContainers:
    """Implements agent.host.ports.Containers."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    async def folder(self) -> str:
        for folder in FOLDERS:
            if (await self._run("test", "-d", folder))[0] == 0:
                return folder
        raise HostError(f"no container runtime is known here: looked for {', '.join(FOLDERS)}")

    async def unused_images(self) -> list[Image]:
        if not await self._has_crictl():
            return await self._unused_by_ctr()
        images = (await self._crictl("images"))["images"]
        used: set[str] = set()
        for container in (await self._crictl("ps", "--all"))["containers"]:
            used |= {str(container["imageRef"]), str(container["image"].get("image"))}
        return unused(images, used)

    async def _unused_by_ctr(self) -> list[Image]:
        listed = await self._run_checked(*_CTR, "images", "list")
        containers = await self._run_checked(*_CTR, "containers", "list")
        return unused_of_ctr(listed, containers)

    async def remove_image(self, image: Image) -> None:
        argv: tuple[str, ...] = (*_CTR, "images", "rm", "--sync", image.name)
        if await self._has_crictl():
            argv = ("crictl", "rmi", image.name)
        code, output = await self._run(*argv, limit=REMOVE_SECONDS)
        # The runtime removes its own names of an image with the first of them.
        if code != 0 and "not found" not in output:
            raise HostError(f"{' '.join(argv)}: exit status {code}: {output}")

    async def exited(self) -> list[Container]:
        listed = (await self._crictl("ps", "--all", "--state", "Exited"))["containers"]
        containers = []
        for entry in listed:
            status = (await self._crictl("inspect", entry["id"]))["status"]
            containers.append(Container(entry["id"], _when(status["finishedAt"])))
        return containers

    async def remove_container(self, container: Container) -> None:
        await self._run_checked("crictl", "rm", container.id, limit=REMOVE_SECONDS)

    async def sandboxes(self) -> list[Sandbox]:
        sandboxes = []
        for entry in (await self._crictl("pods"))["items"]:
            status = (await self._crictl("inspectp", entry["id"]))["status"]
            sandboxes.append(sandbox(entry, status))
        return sandboxes

    async def remove_sandbox(self, sandbox: str) -> None:
        # Without --force, the runtime itself refuses one that is ready.
        await self._run_checked("crictl", "rmp", sandbox, limit=REMOVE_SECONDS)

    async def _has_crictl(self) -> bool:
        return (await self._run("crictl", "--version"))[0] != _MISSING

    async def _crictl(self, *arguments: str) -> Any:
        output = await self._run_checked("crictl", *arguments, "--output", "json")
        try:
            return msgspec.json.decode(output)
        except msgspec.DecodeError as error:
            raise HostError(f"crictl {' '.join(arguments)}: no JSON: {error}") from error

    async def _run_checked(self, *argv: str, limit: float = SECONDS) -> str:
        code, output = await self._run(*argv, limit=limit)
        if code == _MISSING:
            raise HostError(f"{argv[0]} is not installed on this host, and this needs it")
        if code != 0:
            raise HostError(f"{' '.join(argv)}: exit status {code}: {output}")
        return output

    async def _run(self, *argv: str, limit: float = SECONDS) -> tuple[int, str]:
        try:
            ran = await self._commands.run(HostCommand(argv, limit, ("CAP_DAC_OVERRIDE",)))
        except TimeoutError as error:
            raise HostError(f"{' '.join(argv)}: no answer within {limit:g} s") from error
        return ran.code, ran.output


def unused(images: list[Mapping[str, Any]], used: set[str]) -> list[Image]:
    """Of crictl's images, return those that no container uses and that are not pinned."""
    removable = []
    for image in images:
        tags, digests = image.get("repoTags") or [], image.get("repoDigests") or []
        names = {image["id"], *tags, *digests}
        if not names & used and not image.get("pinned"):
            removable.append(Image(image["id"], int(image.get("size") or 0)))
    return removable


def unused_of_ctr(images: str, containers: str) -> list[Image]:
    """Of ctr's listings, return the images whose content no container uses under any name.

    Raises HostError if a listing has an unknown form: nothing is removed on a guess.
    """
    rows = [line.split() for line in images.splitlines()]
    users = [line.split() for line in containers.splitlines()]
    if not rows or rows[0][:3] != ["REF", "TYPE", "DIGEST"] or not users or users[0][1] != "IMAGE":
        raise HostError("ctr lists images or containers in a form that is not known")
    digests = {row[0]: row[2] for row in rows[1:]}
    used = {digests.get(row[1], row[1]) for row in users[1:]}
    pinned = {row[2] for row in rows[1:] if _PINNED_LABEL in row[-1].split(",")}
    removable = []
    for row in rows[1:]:
        size = re.fullmatch(r"([0-9.]+)(B|KiB|MiB|GiB|TiB)", row[3] + row[4])
        if size is None:
            raise HostError(f"ctr gives {row[0]} a size that is not known: {row[3]} {row[4]}")
        if row[2] not in used | pinned and row[0] not in used:
            removable.append(Image(row[0], int(float(size[1]) * _SIZES[size[2]])))
    return removable


def sandbox(listed: Mapping[str, Any], status: Mapping[str, Any]) -> Sandbox:
    about = listed.get("metadata", {})
    options = status.get("linux", {}).get("namespaces", {}).get("options", {})
    return Sandbox(
        id=listed["id"],
        ready=listed["state"] != "SANDBOX_NOTREADY",
        host_network=options.get("network") != "POD",
        pod=f"{about.get('namespace')}/{about.get('name')}",
        created=datetime.fromtimestamp(int(listed["createdAt"]) / 1e9, UTC),
    )


def _when(text: str) -> datetime:
    """Parse crictl's time, which has nanoseconds; Python reads six digits."""
    return datetime.fromisoformat(re.sub(r"(\.[0-9]{6})[0-9]*", r"\1", text))
