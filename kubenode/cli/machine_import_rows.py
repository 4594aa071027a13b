"""The hosts to import: one described by flags, or many in a file.

Example of a file:

    defaults: {ssh: root@, labels: {pool: online}}
    hosts:
      - host: 10.2.7.113
        name: sh-113
      - host: sh-114.example.com
"""

import asyncio
import re
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from kubenode.api.base import Model
from kubenode.api.meta import LabelValue
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machine import NODE_NAME, is_address
from kubenode.cli.documents import UnreadableDocument, read
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.lint import parts

MOST_HOSTS = 10_000
SSH = r"^([^@\s:/]+@)?([^@\s:/\[\]]*|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?$"


class ImportRow(Model):
    """One host. Empty: worked out from `host`, as the methods say."""

    host: str = Field(min_length=1, max_length=253)
    name: str = Field(default="", max_length=253, pattern=f"{NODE_NAME}|^$")
    ssh: str = Field(default="", max_length=320, pattern=SSH)
    """USER@HOST:PORT, each part may be left out."""
    identity: str = Field(default="", max_length=4096)
    known_hosts: str = Field(default="", max_length=4096)
    addresses: list[str] = Field(default_factory=list, max_length=16)
    node_name: str = Field(default="", max_length=253, pattern=f"{NODE_NAME}|^$")
    labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=64)
    observe: bool = False
    node: Literal["Expected", "Join", "None"] = "Expected"

    @property
    def machine_name(self) -> str:
        """Return the name of the Machine.

        Raises Refusal if only an address of the host is known.
        """
        name = self.name or self.host.lower()
        if is_address(name) or not re.match(NODE_NAME, name):
            raise Refusal(f"{self.host}: no name for a Machine: say --name (name: in a file)")
        return name

    @property
    def ssh_target(self) -> tuple[str, str, int]:
        """Return user, host and port for SSH. "" is the default user, 0 the default port."""
        match = re.match(SSH, self.ssh)
        user, host, port = match.groups("") if match is not None else ("", "", "")
        return user.rstrip("@"), host.strip("[]") or self.host, int(port.lstrip(":") or 0)

    def machine(self, addresses: Sequence[str]) -> dict[str, Any]:
        """Build the Machine of this host. Raises Refusal if the Machine would be invalid."""
        spec: dict[str, Any] = {
            "origin": "Import",
            "addresses": list(addresses),
            "node": self.node,
            "mode": "Observe" if self.observe else "Manage",
        }
        if self.node_name:
            spec["nodeName"] = self.node_name
        if self.labels and self.node != "None":
            spec["nodeTemplate"] = {"labels": self.labels}
        made = {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": self.machine_name, "labels": self.labels},
            "spec": spec,
        }
        try:
            Machine.from_user(made)
        except ValidationError as error:
            raise Refusal(f"{self.host}: {problems(error)[0]}", Exit.USAGE) from error
        return made


class ImportFile(Model):
    defaults: dict[str, Any] = Field(default_factory=dict)
    """For every host that does not say otherwise; labels are joined."""
    hosts: list[dict[str, Any]] = Field(min_length=1, max_length=MOST_HOSTS)


async def addresses_of(row: ImportRow) -> list[str]:
    """Return the given addresses, else those to which `host` resolves here. Raises Refusal."""
    if row.addresses:
        return row.addresses
    if is_address(row.host):
        return [row.host]
    try:
        loop = asyncio.get_running_loop()
        resolved = await loop.getaddrinfo(row.host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Refusal(
            f"{row.host}: no address: {error}; name it by one, or say --address"
        ) from error
    return list(dict.fromkeys(str(info[4][0]) for info in resolved if is_address(str(info[4][0]))))


def row_of(data: Mapping[str, Any]) -> ImportRow:
    """Validate one row. Raises Refusal that names every problem."""
    try:
        return ImportRow.model_validate(data)
    except ValidationError as error:
        raise Refusal("; ".join(problems(error, ImportRow)), Exit.USAGE) from error


def read_rows(path: Path, flags: Mapping[str, Any]) -> list[ImportRow]:
    """Read the rows of a file.

    flags: defaults for every host; the defaults of the file replace them.

    Raises Refusal with file, line and field of each problem.
    """
    try:
        documents = list(read(path))
    except UnreadableDocument as error:
        raise Refusal(str(error), Exit.USAGE) from error
    if len(documents) != 1:
        raise Refusal(f"{path}: {len(documents)} documents; write one with `hosts:`", Exit.USAGE)
    document = documents[0]
    messages: list[str] = []
    try:
        file = ImportFile.model_validate(document.data)
    except ValidationError as error:
        raise Refusal("\n".join(problems(error, ImportFile, document.where)), Exit.USAGE) from error
    rows = []
    for number, given in enumerate(file.hosts):
        where = f"hosts[{number}]"
        try:
            row = ImportRow.model_validate(_joined(_joined(flags, file.defaults), given))
            _ = row.machine_name
            rows.append(row)
        except ValidationError as error:
            place = document.where(parts(where))
            messages += [f"{place}: {where}.{text}" for text in problems(error, ImportRow)]
        except Refusal as error:
            messages.append(f"{document.where(parts(where))}: {where}: {error}")
    messages += _twice(path, rows)
    if messages:
        raise Refusal("\n".join(messages), Exit.USAGE)
    return rows


def _joined(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    joined = {**defaults, **given}
    both = [source.get("labels") for source in (defaults, given)]
    if all(isinstance(labels, dict) for labels in both):
        joined["labels"] = {**defaults["labels"], **given["labels"]}
    return joined


def _twice(path: Path, rows: Sequence[ImportRow]) -> list[str]:
    occurrences = Counter(
        key for row in rows for key in {row.host, row.machine_name, *row.addresses}
    )
    how = "each host is one Machine, keep one"
    return [
        f"{path}: {key} is there twice: {how}" for key, count in occurrences.items() if count > 1
    ]
