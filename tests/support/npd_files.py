"""Custom-plugin monitors as node-problem-detector's own files write them."""

from pathlib import Path
from typing import Any


def a_file(*rules: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """As config/custom-plugin-monitor.json is written."""
    return {
        "plugin": "custom",
        "pluginConfig": {"invoke_interval": "30s", "timeout": "20s", **settings},
        "source": "ntp-custom-plugin-monitor",
        "metricsReporting": True,
        "conditions": [{"type": "NTPProblem", "reason": "NTPIsUp", "message": "ntp service is up"}],
        "rules": list(rules),
    }


def permanent(path: Path | str, reason: str = "NTPIsDown", **more: Any) -> dict[str, Any]:
    return {
        "type": "permanent",
        "condition": "NTPProblem",
        "reason": reason,
        "path": str(path),
        **more,
    }


def temporary(path: Path | str) -> dict[str, Any]:
    return {"type": "temporary", "reason": "NTPIsDown", "path": str(path)}
