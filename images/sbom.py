"""Writes the contents of each image as CycloneDX, one file per image: `python -m images.sbom
FOLDER`.

Versions come from requirements.lock, licences and dependencies from the installed distributions.
The same sources and lock give the same bytes.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import distribution
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agent.packages.build import epoch
from agent.packages.pins import closure
from images.audit import licence
from images.closure import PROJECT, PYTHONS, needs

NOT_SHIPPED = "build"


def bom(image: str, requirements: Sequence[str], made_at: datetime) -> str:
    """Return the packages that `requirements` need as JSON, with dependencies, versions and
    licences.

    Raises ValueError if the result is not valid CycloneDX.
    """
    dependencies = closure(requirements, PYTHONS[0])
    parts = {name: _component(name) for name in dependencies}
    whole = Component(
        name=f"kubenode-{image}",
        version=PROJECT["version"],
        type=ComponentType.APPLICATION,
        bom_ref="kubenode",
        licenses=[LicenseFactory().make_from_string(PROJECT["license"])],
    )
    made = Bom(components=parts.values())
    made.metadata.component = whole
    made.metadata.timestamp = made_at
    purls = " ".join(sorted(str(part.purl) for part in parts.values()))
    made.serial_number = uuid5(NAMESPACE_URL, f"{whole.name} {whole.version} {purls}")
    direct = {canonicalize_name(Requirement(line).name) for line in requirements}
    made.register_dependency(whole, [parts[name] for name in sorted(direct)])
    for name, below in dependencies.items():
        made.register_dependency(parts[name], [parts[each] for each in sorted(below)])
    text = JsonV1Dot6(made).output_as_string(indent=2)
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"what {image} holds makes no CycloneDX 1.6: {wrong}")
    return text


def _component(name: str) -> Component:
    package = distribution(name)
    expression = licence(package.metadata)
    return Component(
        name=name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{name}=={package.version}",
        purl=PackageURL("pypi", name=name, version=package.version),
        licenses=[LicenseFactory().make_from_string(expression)] if expression else (),
    )


def write_boms(folder: Path) -> list[Path]:
    """Write a file for each image and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    made_at = datetime.fromtimestamp(int(epoch()["SOURCE_DATE_EPOCH"] or 0), UTC)
    files = []
    for image, requirements in needs().items():
        if image != NOT_SHIPPED:
            file = folder / f"{image}.cdx.json"
            file.write_text(f"{bom(image, requirements, made_at)}\n")
            files.append(file)
    return files


if __name__ == "__main__":
    sys.stdout.write("".join(f"{file}\n" for file in write_boms(Path(sys.argv[1]))))
