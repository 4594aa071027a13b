"""Scripts that change files of the host, as transient units; every host has a shell.

Each script enters the folders of a path by handle, and refuses a folder that users other than root
can write to. Such a user could put a link in the place of the file that root is about to write.
"""

from collections.abc import Sequence
from pathlib import Path

from agent.host import Contraindicated

_FOLDER = Path(__file__).parent
_REFUSED = 77
_MARK = "refused: "
_REMEDY = (
    "keep it in a folder of root's, such as one below /etc or /opt, or take the right to write from"
    " others (chown root: FOLDER; chmod go-w FOLDER), then raise the component's attempt"
)


def argv(name: str, *args: str) -> list[str]:
    """Return the command that runs NAME.sh with these arguments; `name` is one word of it."""
    text = "".join((_FOLDER / f"{script}.sh").read_text() for script in ("folders", name))
    return ["/bin/sh", "-c", text, name, *args]


def check_refusal(what: str, code: int, output: str) -> None:
    """Raise Contraindicated if a script refused a folder.

    what: field and its value
    """
    if code == _REFUSED:
        reason = output.rpartition(_MARK)[2].strip()
        raise Contraindicated(f"{what}: {reason}; {_REMEDY}")


def grouped(paths: Sequence[str]) -> list[str]:
    """Order the paths by folder, so that each folder is entered once."""
    return sorted(paths, key=lambda path: (path.rpartition("/")[0], path))
