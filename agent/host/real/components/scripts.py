"""Scripts that change files of the host, as units of systemd: a shell is on every host.

Each walks into the folders on its way by handle, and refuses those that others than root may write:
who may write a folder can put a link in the place of what root is about to write there.
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
    """The program that runs NAME.sh with these arguments; `name` stands in it as a word."""
    text = "".join((_FOLDER / f"{script}.sh").read_text() for script in ("folders", name))
    return ["/bin/sh", "-c", text, name, *args]


def check_refusal(what: str, code: int, output: str) -> None:
    """Raise Contraindicated where a script refused a folder. what: the field and its value."""
    if code == _REFUSED:
        reason = output.rpartition(_MARK)[2].strip()
        raise Contraindicated(f"{what}: {reason}; {_REMEDY}")


def grouped(paths: Sequence[str]) -> list[str]:
    """Those of one folder next to each other, so that it is entered once."""
    return sorted(paths, key=lambda path: (path.rpartition("/")[0], path))
