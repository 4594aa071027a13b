"""The `kubenode` command."""

import sys

SUPPORTED = ((3, 11), (3, 15))
"""CPython from the first to below the second."""


def main() -> None:
    """Run the command that the arguments name; ends the process with its exit code."""
    if why := unsupported(sys.version_info[:2]):
        sys.stderr.write(f"kubenode: {why}\n")
        raise SystemExit(2)
    from kubenode.cli.app import app  # after the check: the message must not depend on imports

    app(prog_name="kubenode")


def unsupported(version: tuple[int, int]) -> str:
    """Why this CPython will not do and what to do, "" if it will."""
    low, beyond = SUPPORTED
    if low <= version < beyond:
        return ""
    release = ".".join(map(str, version))
    return (
        f"this is Python {release}; KubeNode runs on CPython 3.11 to 3.14. Install one and name it:"
        " make venv PYTHON=/path/to/python3.13"
    )
