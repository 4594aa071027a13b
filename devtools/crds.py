"""charts/kubenode/crds: CustomResourceDefinitions, written from the models.

python -m devtools.crds            write charts/kubenode/crds
python -m devtools.crds --check    exit 1 and name the files that differ
"""

import sys

from devtools.generators import ROOT, run
from kubenode.api.crd import files

FOLDER = ROOT / "charts" / "kubenode" / "crds"


def main(arguments: list[str]) -> int:
    return run({FOLDER / name: text for name, text in files().items()}, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
