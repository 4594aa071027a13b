"""What the provider `local` runs to make machines out of this session's hosts (support.host_rack).

    machines.py FOLDER create NAME TOKEN | get MACHINE | delete MACHINE | list CLUSTER
    machines.py FOLDER state|off|on|reset MACHINE REQUEST        as power.py

FOLDER  of the session: the rack listens there, at `rack`. It answers with what is to be printed and
the code to end with; 69 when it is not there.
"""

import json
import os
import socket
import sys
from pathlib import Path

UNREACHABLE = 69
POWER = Path(__file__).with_name("power.py")


def main(folder: Path, verb: str, *words: str) -> int:
    if verb in ("state", "off", "on", "reset"):
        os.execv(sys.executable, [sys.executable, str(POWER), str(folder), verb, *words])
    given = sys.stdin.read() if verb == "create" else ""
    request = json.dumps({"verb": verb, "words": words, "given": given})
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(folder / "rack"))
            line.sendall(f"{request}\n".encode())
            with line.makefile() as reader:
                answer = json.loads(reader.readline())
    except (OSError, ValueError) as error:
        sys.stderr.write(f"the rack: {error}\n")
        return UNREACHABLE
    sys.stdout.write(f"{answer['said']}\n")
    sys.stderr.write(answer["complained"])
    return int(answer["code"])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
