"""The chart for those who do not use helm: charts/kubenode/kustomization.yaml and what it names.

    PYTHONPATH=tests python -m support.kustomize_base            write them
    PYTHONPATH=tests python -m support.kustomize_base --check    exit 1 if they are not up to date

`kubectl kustomize charts/kubenode` is one plain manifest. Rights, policies and kinds are named
where they are; only what the templates themselves make of default values is written once more.
"""

import sys
import tempfile
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from ruamel.yaml import YAML
from support.helm import CHART, NAMESPACE, Helm, Object, documents, ident, is_hook

HEAD = "# Written by `PYTHONPATH=tests python -m support.kustomize_base` from the chart.\n"
WORKLOADS = "kustomize/workloads.yaml"
PARTS = ("agent/rbac", "agent/admission", "defender/rbac", "defender/publishing",
         "defender/admission", "defender/leader", "defender/webhook", "remedy/rbac",
         "remedy/publishing", "remedy/admission", "remedy/words", "remedy/webhook", "machine/rbac",
         "machine/publishing", "machine/admission", "machine/webhook", "people")  # fmt: skip
"""Files that these values install, the namespaces' first."""
BY_PROGRAM: Object = {"certificate": {"source": "Operator"}}
BY_OPERATOR: Object = {
    "remedy": {"webhook": BY_PROGRAM},
    "defender": {"guard": BY_PROGRAM},
    "machine": {"webhook": BY_PROGRAM},
}
"""No helm writes a certificate into a plain manifest."""


def written(helm: Helm) -> Mapping[Path, str]:
    """What the files ought to hold."""
    kinds = sorted(f"crds/{path.name}" for path in (CHART / "crds").glob("*.yaml"))
    files = [f"{part}.yaml" for part in PARTS]
    there = {ident(one) for file in files for one in documents((CHART / file).read_text())}
    space: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    made = [
        one for one in helm.rendered(BY_OPERATOR) if ident(one) not in there and not is_hook(one)
    ]
    base = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [*kinds, *files, WORKLOADS],
    }
    return {CHART / "kustomization.yaml": _text(base), CHART / WORKLOADS: _text(space, *made)}


def _text(*objects: Object) -> str:
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 4096
    out = StringIO()
    yaml.dump_all(objects, out)
    return HEAD + out.getvalue()


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as home:
        wanted = written(Helm(Path(home)))
    old = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in old:
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_text(wanted[path])
        sys.stderr.write(f"{path.relative_to(CHART)}: not as the chart is\n")
    return int(bool(old) and "--check" in arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
