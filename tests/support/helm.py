"""helm, and the chart of this repository as it renders it."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from support.components import helm_program

CHART = Path(__file__).parents[2] / "charts" / "kubenode"
NAMESPACE = "kubenode-system"
Values = Mapping[str, Any]
Object = dict[str, Any]


class Helm:
    """kubeconfig  of the cluster; None: for what needs none
    home        a folder for what it caches
    """

    def __init__(self, home: Path, kubeconfig: Path | None = None) -> None:
        self._home, self._kubeconfig = home, kubeconfig

    def run(
        self, *words: str | Path, values: Values | None = None, limit: float = 180
    ) -> subprocess.CompletedProcess[str]:
        """`values` are given as a file on standard input."""
        given = [] if values is None else ["--values", "-"]
        return subprocess.run(
            [helm_program(), *words, *given],
            input=None if values is None else json.dumps(values),
            env={"HOME": str(self._home), "KUBECONFIG": str(self._kubeconfig or "/dev/null")},
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )

    def done(self, *words: str | Path, values: Values | None = None) -> str:
        """What it prints. Raises AssertionError with its complaint."""
        result = self.run(*words, values=values)
        assert result.returncode == 0, f"helm {' '.join(map(str, words))}: {result.stderr}"
        return result.stdout

    def rendered(self, values: Values) -> list[Object]:
        """Every object of the chart, hooks and tests too, custom resource definitions not."""
        text = self.done("template", "kubenode", CHART, "-n", NAMESPACE, values=values)
        return documents(text)

    def refused(self, values: Values, namespace: str = NAMESPACE) -> str:
        """Why the chart is not rendered with them. Raises AssertionError if it is."""
        result = self.run("template", "kubenode", CHART, "-n", namespace, values=values)
        assert result.returncode != 0, "it was rendered"
        return result.stderr


def documents(text: str) -> list[Object]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # kinds are long: ten times as fast
    return [one for one in yaml.load_all(text, Loader=loader) if one]


def ident(found: Object) -> str:
    meta = found["metadata"]
    return f"{found['kind']}/{meta.get('namespace', '')}/{meta['name']}"


def is_hook(found: Object) -> bool:
    return "helm.sh/hook" in found["metadata"].get("annotations", {})


def pod_specs(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """(kind/namespace/name, spec) of every pod that they make."""
    for found in objects:
        if found["kind"] == "Pod":
            yield ident(found), found["spec"]
        elif "template" in found.get("spec", {}):
            yield ident(found), found["spec"]["template"]["spec"]
