"""What a revision and a configuration are called: the same content always has the same name.

Only what differs from the API's defaults goes in, so a newer operator with more fields gives equal
content the same name. Texts of ConfigMaps and Secrets go in by their digests, those of Secrets
under a salt.
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
    """Of what ConfigMaps and Secrets hold; fit to be kept and shown."""
    return {str(ref): digest(text.content, text.salt) for ref, text in texts.items()}


def revision(
    spec: ComponentSpec,
    values: Mapping[str, str],
    desired_state: str,
    digests: Mapping[str, str],
) -> str:
    """Of what a set wants on all of its machines. digests: of `text_digests`."""
    return _named([spec, dict(values), str(desired_state), dict(digests)])


def config_hash(rendered: RenderedFiles) -> str:
    """Of the files and units of one machine. How much a change would disturb is not in it."""
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
