"""Runs commands on a host over SSH. Only this module imports asyncssh, and only when it is needed.

The host's key must be in a known_hosts file. No key is trusted on first use, whatever ~/.ssh/config
says.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from kubenode.cli.exits import Refusal
from kubenode.cli.machine_import_rows import ImportRow

if TYPE_CHECKING:
    import asyncssh

CONNECT_SECONDS = 20.0
COMMAND_SECONDS = 60.0
KNOWN_HOSTS = (Path("~/.ssh/known_hosts"), Path("/etc/ssh/ssh_known_hosts"))
MOST_ANSWER = 64 * 1024
"""Characters that are kept of a command's standard output, and of its standard error."""


@dataclass(frozen=True, slots=True)
class SshResult:
    code: int
    out: str
    err: str


class Remote(Protocol):
    async def run(
        self, command: str, stdin: bytes = b"", seconds: float = COMMAND_SECONDS
    ) -> SshResult:
        """Run `command` in the host's shell. Raises Refusal if the host does not answer.

        stdin: the input of the command; empty for none.
        seconds: timeout of the command.
        """
        ...


def require_asyncssh() -> ModuleType:
    """Return the module asyncssh. Raises Refusal if it is not installed."""
    try:
        import asyncssh
    except ImportError as error:
        raise Refusal(
            "asyncssh, which reaches hosts by SSH, is not installed: `pip install 'kubenode[ssh]'`,"
            " or let the host in by --print-script or --print-cloud-init"
        ) from error
    return asyncssh


class SshRemote:
    """Implements Remote."""

    def __init__(self, connection: "asyncssh.SSHClientConnection", host: str) -> None:
        self._connection, self._host = connection, host

    async def run(
        self, command: str, stdin: bytes = b"", seconds: float = COMMAND_SECONDS
    ) -> SshResult:
        import asyncssh

        try:
            # Without input, DEVNULL tells the command that the input is at its end.
            given = {"input": stdin} if stdin else {"stdin": asyncssh.DEVNULL}
            done = await self._connection.run(
                command, encoding=None, check=False, timeout=seconds, **given
            )
        except TimeoutError as error:  # asyncssh's TimeoutError is one too
            text = f"{self._host}: no answer within {seconds:.0f} s: is the host busy? Run it again"
            raise Refusal(text) from error
        except (asyncssh.Error, OSError) as error:
            text = f"{self._host}: the SSH connection broke: {error}; run it again"
            raise Refusal(text) from error
        if done.returncode is None:
            raise Refusal(f"{self._host}: the SSH connection broke: no answer; run it again")
        return SshResult(done.returncode, *_texts(done))


def _texts(done: "asyncssh.SSHCompletedProcess") -> tuple[str, str]:
    both = (done.stdout, done.stderr)
    texts = (t.decode(errors="replace") if isinstance(t, bytes) else str(t or "") for t in both)
    out, err = (text[:MOST_ANSWER] for text in texts)
    return out, err


@asynccontextmanager
async def connect_ssh(row: ImportRow) -> AsyncIterator[Remote]:
    """Connect to the host. Raises Refusal with what to do if SSH does not let us in.

    The causes are: the host is not reached, its key is unknown, or it refuses the login.
    """
    ssh = require_asyncssh()
    user, host, port = row.ssh_target
    try:
        connection = await ssh.connect(
            host,
            port or (),
            username=user or (),
            known_hosts=_known(row),
            client_keys=_keys(row),
            connect_timeout=CONNECT_SECONDS,
            login_timeout=CONNECT_SECONDS,
        )
    except ssh.HostKeyNotVerifiable as error:
        raise Refusal(await _stranger(ssh, row)) from error
    except ssh.PermissionDenied as error:
        raise Refusal(
            f"{host}: SSH does not let {user or 'this user'} in: {error.reason}; name the user by"
            " --ssh USER@HOST and its key by --identity, or load it into ssh-agent"
        ) from error
    except (ssh.Error, OSError, ValueError) as error:
        why = str(error) or type(error).__name__
        raise Refusal(f"{host}: not reached by SSH: {why}; is --ssh right?") from error
    try:
        yield SshRemote(connection, host)
    finally:
        connection.close()
        with suppress(OSError):
            await connection.wait_closed()


def _keys(row: ImportRow) -> list[str] | tuple[()]:
    """Return the files of private keys; () for those of ssh-agent and ~/.ssh."""
    if not row.identity:
        return ()
    path = Path(row.identity).expanduser()
    if not path.is_file():
        raise Refusal(f"--identity {path}: no such file; name a private key")
    return [str(path)]


def _known(row: ImportRow) -> list[str] | bytes:
    """Return the files of known keys; never None, by which asyncssh accepts any key."""
    if row.known_hosts:
        path = Path(row.known_hosts).expanduser()
        if not path.is_file():
            raise Refusal(f"--known-hosts {path}: no such file; `ssh-keyscan` writes its lines")
        return [str(path)]
    existing = [str(path) for each in KNOWN_HOSTS if (path := each.expanduser()).is_file()]
    return existing or b"# none is known"


async def _stranger(ssh: ModuleType, row: ImportRow) -> str:
    """Return the message about a host whose key is unknown or differs from the known one."""
    _, host, port = row.ssh_target
    shown = "one that could not be looked at"
    with suppress(ssh.Error, OSError):
        key = await ssh.get_server_host_key(host, port or ())
        if key is not None:
            shown = f"{key.get_algorithm()} {key.get_fingerprint()}"
    where = row.known_hosts or KNOWN_HOSTS[0]
    return (
        f"{host}: its SSH host key is not the known one: it shows {shown}. If"
        " `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` at its console says the same, take it:"
        f" `ssh-keyscan -p {port or 22} {host} >> {where}`"
    )
