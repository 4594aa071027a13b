"""Version of the agent."""

from pathlib import Path

import agent

UNKNOWN = "unknown"


def version(package: Path | None = None) -> str:
    """Return the content of the file VERSION beside the package, as the Debian package installs it.

    Without that file, return the version of the installed project.
    """
    folder = package or Path(agent.__file__).parent
    try:
        if text := (folder.parent / "VERSION").read_text(encoding="utf-8").strip():
            return text
    except (OSError, UnicodeDecodeError):
        pass  # not installed as a package
    from importlib import metadata  # 0.6 MB, needed in a checkout only

    try:
        return metadata.version("kubenode")
    except metadata.PackageNotFoundError:
        return UNKNOWN
