"""The rules that ship with KubeNode, `rules/library/*.yaml`."""

from pathlib import Path

import rules
from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.documents import read


def library() -> list[NodeRemedier]:
    """Every rule of the library, in the order of the files' names."""
    folder = Path(rules.__file__).parent / "library"
    return [
        NodeRemedier.from_user(document.data)
        for path in sorted(folder.glob("*.yaml"))
        for document in read(path)
    ]
