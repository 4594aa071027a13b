"""The command of provider `local` for the simulated fleet: asks who runs it, and says the answer.

switch.py PORT state|off|on|reset MACHINE REQUEST
"""

import socket
import sys

SECONDS = 20


def main(port: str, *words: str) -> int:
    with socket.create_connection(("127.0.0.1", int(port)), SECONDS) as line:
        line.sendall(" ".join(words).encode() + b"\n")
        answer = line.makefile().readline()
    code, _, said = answer.strip().partition(" ")
    sys.stdout.write(f"{said}\n")
    return int(code) if code else 69


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
