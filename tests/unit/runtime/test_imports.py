"""What a node must not pay for: `kubernetes` alone costs 1 s of CPU and 48 MB."""

import subprocess
import sys

AGENT_MODULES = (
    "kubenode.runtime.clock",
    "kubenode.runtime.controller.controller",
    "kubenode.runtime.controller.queue",
    "kubenode.runtime.controller.result",
    "kubenode.runtime.fence",
    "kubenode.runtime.kube.informer",
    "kubenode.runtime.kube.objects",
    "kubenode.runtime.kube.paths",
    "kubenode.runtime.kube.plain",
    "kubenode.runtime.lease",
    "kubenode.runtime.process",
    "kubenode.runtime.recorder",
)


def test_what_the_agent_uses_loads_neither_kubernetes_nor_pydantic() -> None:
    heavy = "{'kubernetes', 'pydantic', 'structlog', 'prometheus_client'}"
    code = f"import sys, {', '.join(AGENT_MODULES)}; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_help_of_the_command_loads_nothing_heavy() -> None:
    heavy = "{'pydantic', 'asyncio', 'kubernetes', 'starlette', 'defender', 'remedy', 'machine'}"
    code = f"import sys, kubenode.cli.app; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
