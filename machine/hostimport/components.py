"""Components that remain on a host after its export, from the records of its agent.

The records are on the host and contain secrets, so a program there prints only what is not secret.
"""

import json
from dataclasses import dataclass

from machine.hostimport.join_settings import PACKAGE, STATE

_PROGRAM = """
import json, pathlib
for path in sorted(pathlib.Path("@RECORDS@").glob("*.json")):
    try:
        record = json.loads(path.read_text().partition(" ")[2])
    except ValueError:
        print(json.dumps({"name": path.stem, "stays": "its record cannot be read"}))
        continue
    applied, before = record.get("applied"), record.get("before") or {}
    source = applied["spec"]["source"] if applied else {}
    packages = source.get("apt") or source.get("dnf")
    if packages and any(package["name"] == "@PACKAGE@" for package in packages["packages"]):
        continue  # the agent itself, which goes anyway
    told = {"name": record["name"], "version": applied["spec"]["version"] if applied else ""}
    if record.get("reason") == "Stays":
        told["stays"] = record["message"]
    elif record["state"] == "Failed":
        told["stays"] = "it is Failed: what of it is on the host is not certain"
    elif record["state"] == "Absent":
        packages = before.get("packages") or {}
        told["missed"] = [f"{n} {p['version']}" for n, p in packages.items() if p["version"]]
    print(json.dumps(told))
"""


def program(state: str = STATE) -> str:
    """Return the program for python3, without arguments. It prints nothing if there are no records.

    state: the agent's state folder.
    """
    records = f"{state}/components/records"
    return _PROGRAM.replace("@RECORDS@", records).replace("@PACKAGE@", PACKAGE)


@dataclass(frozen=True, slots=True)
class ComponentRemains:
    """What remains of a component, or was changed for good.

    name: the component.
    version: the version that stays on the host, "" for none.
    stays: what could not be restored, "" for nothing.
    missed: packages that were there before the component and were removed on purpose.
    """

    name: str
    version: str = ""
    stays: str = ""
    missed: tuple[str, ...] = ()

    @property
    def is_restored(self) -> bool:
        """Whether the host is as it was before the component."""
        return not (self.version or self.stays or self.missed)

    def __str__(self) -> str:
        if self.stays:
            return f"of component {self.name}: {self.stays}"
        if self.missed:
            return f"taken off with component {self.name}, not put back: {', '.join(self.missed)}"
        return f"component {self.name} {self.version}, with its packages, files and units"


def parse_remains(answer: str) -> tuple[ComponentRemains, ...]:
    """Return the components in the program's output that did not leave the host as it was."""
    lines = [json.loads(line) for line in answer.splitlines() if line.startswith("{")]
    remains = (
        ComponentRemains(
            record["name"],
            record.get("version", ""),
            record.get("stays", ""),
            tuple(record.get("missed", ())),
        )
        for record in lines
    )
    return tuple(entry for entry in remains if not entry.is_restored)
