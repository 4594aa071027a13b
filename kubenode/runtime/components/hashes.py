"""Names of revisions and configurations: the same content always has the same name.

Fields that have the API's default are left out, so that a newer operator with more fields computes
the same name for equal content. Texts of ConfigMaps and Secrets are represented by their digests;
those of Secrets are salted.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from kubenode.runtime.components.render import KeyText, RenderedFiles, TextRef, digest
from kubenode.runtime.components.wire import ComponentSpec

HASH_VERSION = "1"
DIGITS = 10

_encode = msgspec.json.Encoder(order="sorted").encode


def text_digests(texts: Mapping[TextRef, KeyText]) -> dict[str, str]:
    """Compute digests of texts of ConfigMaps and Secrets. They are safe to store and show."""
    return {str(ref): digest(text.content, text.salt) for ref, text in texts.items()}


def revision(
    spec: ComponentSpec,
    values: Mapping[str, str],
    desired_state: str,
    digests: Mapping[str, str],
) -> str:
    """Compute the revision of what a set assigns. `digests` are those of `text_digests`."""
    return _named([spec, dict(values), str(desired_state), dict(digests)])


def config_hash(rendered: RenderedFiles) -> str:
    """Hash the files and units of one machine, without their classes of change."""
    files = [
        [file.path, file.mode, file.owner, file.ownership.value, file.digest]
        for file in sorted(rendered.files, key=lambda file: file.path)
    ]
    units = [
        [unit.name, unit.enabled, unit.state.value, [[d.name, d.content] for d in unit.drop_ins]]
        for unit in sorted(rendered.units, key=lambda unit: unit.name)
    ]
    return _named([files, units])


def _named(content: object) -> str:
    return f"{HASH_VERSION}-{hashlib.sha256(_encode(content)).hexdigest()[:DIGITS]}"
