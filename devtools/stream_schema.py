"""docs/reference/stream.json: the JSON schema of the events of the stream.

python -m devtools.stream_schema            write the file
python -m devtools.stream_schema --check    exit 1 and name it if it differs
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from devtools.generators import ROOT, run
from kubenode.runtime.stream.model import JSON_TYPE, SPECVERSION, TYPES

FILE = ROOT / "docs" / "reference" / "stream.json"
REFERENCE = "#/$defs/{name}"


def schema() -> dict[str, Any]:
    """Return a schema of one event: for each type, the envelope with the data of that type."""
    data, definitions = msgspec.json.schema_components(TYPES.values(), ref_template=REFERENCE)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Event of the stream of KubeNode, a CloudEvent",
        "oneOf": [_event(name, each) for name, each in zip(TYPES, data, strict=True)],
        "$defs": definitions,
    }


def _event(name: str, data: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "string"}
    properties = {
        "specversion": {"const": SPECVERSION},
        "id": {**text, "description": "UID of the object and its transition."},
        "source": {**text, "description": "urn:kubenode:cluster:NAME"},
        "type": {"const": name},
        "time": {**text, "format": "date-time"},
        "subject": {**text, "description": "Name of the node."},
        "datacontenttype": {"const": JSON_TYPE},
        "data": data,
    }
    return {"type": "object", "required": list(properties), "properties": properties}


def wanted() -> dict[Path, str]:
    return {FILE: json.dumps(schema(), indent=2) + "\n"}


if __name__ == "__main__":
    sys.exit(run(wanted(), sys.argv[1:]))
