"""What the provider `local` runs to reach the boards of this session's hosts (board.py).

    power.py FOLDER state|off|on|reset SESSION/HOST REQUEST

FOLDER  of the session: its name is SESSION, and HOST has its board in a folder of its own below.
Exit codes as kubenode.providers.local.power describes: 68 for a machine that does not exist, 69
when its board does not answer, 78 when it refuses.
"""

import socket
import sys
from pathlib import Path

NO_SUCH_MACHINE, UNREACHABLE, REFUSED = 68, 69, 78


def main(folder: Path, verb: str, machine: str) -> int:
    session, _, host = machine.rpartition("/")
    board = folder / host / "board"
    if session != folder.name or not (folder / host).is_dir():
        sys.stderr.write(f"no host {machine}\n")
        return NO_SUCH_MACHINE
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(board))
            line.sendall(f"{verb}\n".encode())
            with line.makefile() as reader:
                answer = reader.readline().strip()
    except OSError as error:
        sys.stderr.write(f"board of {machine}: {error}\n")
        return UNREACHABLE
    if verb == "state":
        sys.stdout.write(f"{answer}\n")
        return 0
    sys.stderr.write(f"{answer}\n")
    if answer.startswith("refused"):
        return REFUSED
    return 0 if answer == "ok" else UNREACHABLE


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
