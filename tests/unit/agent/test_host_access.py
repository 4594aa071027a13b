"""The agent reaches its host through one root: no module opens files, sockets or programs past it.

A new direct access fails here. Either it goes through agent.host.files.HostRoot (or a program gets
`root=`), or it is about files that are the agent's own, and its module gets a line below.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

AGENT = Path(__file__).parents[3] / "agent"
HOST_ROOT = re.compile(r"^(self\._)?files$|^HostRoot\(")
FUNCTIONS = frozenset(
    {
        *("open", "glob.glob", "glob.iglob", "MessageBus", "tempfile.TemporaryFile"),
        *("shutil.copyfile", "shutil.copy", "shutil.move", "shutil.rmtree", "shutil.which"),
        *("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"),
        *("asyncio.open_unix_connection", "subprocess.run", "subprocess.Popen", "os.system"),
    }
)
OF_OS = frozenset(
    re.findall(
        r"\w+",
        """
        open listdir scandir stat lstat statvfs readlink walk replace rename unlink
        remove mkdir makedirs access chmod chown rmdir link symlink realpath exists
        isdir isfile islink getsize
        """,
    )
)
OF_PATHS = frozenset(
    re.findall(
        r"\w+",
        """
        read_text read_bytes write_text write_bytes exists is_dir is_file is_symlink
        is_mount iterdir glob rglob stat lstat resolve readlink unlink mkdir rmdir touch
        symlink_to chmod
        """,
    )
)
NOT_PATHS = ("os", "os.path", "shutil", "stat", "glob")
PROGRAMS = frozenset({"started", "run"})

OWN_STATE = "the agent's own folder, at the same path on the host"
OWN_CODE = "files of the agent's own package"
OWN_SETTINGS = "the agent's own settings and credentials"
PORT = "implements the port; its paths come from HostRoot"
SEALED = "a copy in memory, which no other process can name"
ALLOWED: Mapping[str, tuple[int, str]] = {
    "actions/checks.py": (2, f"{SEALED}, and the path of HostRoot"),
    "detectors/checks/assembly.py": (1, "a path of HostRoot, kept by the check of mounts"),
    "detectors/checks/host/mounts.py": (1, PORT),
    "detectors/checks/host/pressure.py": (2, PORT),
    "detectors/checks/services/bus.py": (1, "the address is of HostRoot"),
    "detectors/logs/files.py": (1, "a comparison, not an access"),
    "detectors/logs/memory.py": (2, OWN_STATE),
    "detectors/logs/pack.py": (3, OWN_SETTINGS),
    "diagnostics/bundles.py": (10, OWN_STATE),
    "disk.py": (9, OWN_STATE),
    "host/__init__.py": (1, PORT),
    "host/real/components/backups.py": (2, PORT),
    "host/real/components/files.py": (8, PORT),
    "host/real/components/manifest.py": (8, PORT),
    "host/real/components/scripts.py": (1, OWN_CODE),
    "host/real/components/trees.py": (16, PORT),
    "host/real/components/unpacker.py": (13, OWN_STATE),
    "host/real/components/watch.py": (1, PORT),
    "host/real/disks.py": (10, PORT),
    "host/real/network.py": (7, OWN_STATE),
    "host/real/processes.py": (5, PORT),
    "host/real/scripts.py": (7, OWN_STATE),
    "host/systemd.py": (1, "the address is of HostRoot"),
    "identity/keeper.py": (1, OWN_SETTINGS),
    "identity/keys.py": (1, OWN_SETTINGS),
    "identity/store.py": (1, OWN_STATE),
    "probes/readings.py": (1, OWN_STATE),
    "programs.py": (1, PORT),
    "settings.py": (4, OWN_SETTINGS),
    "version.py": (1, OWN_CODE),
}
"""Direct accesses by module: their number and why they may be."""
OUTSIDE = ("packages/", "host/files.py")
"""The builder of the packages, which runs on no host; the port itself."""


def direct_accesses(source: str) -> list[str]:
    """Return the accesses that are not through HostRoot, as `LINE: TEXT`."""
    tree = ast.parse(source)
    programs = _imported_programs(tree)
    return [
        f"{node.lineno}: {ast.unparse(node)[:80]}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and (_is_direct(node) or _misses_root(node, programs))
    ]


def _is_direct(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    owner, _, method = name.rpartition(".")
    accesses = (
        name in FUNCTIONS
        or (owner in ("os", "os.path") and method in OF_OS)
        or (method in OF_PATHS and bool(owner) and owner not in NOT_PATHS)
    )
    return accesses and not any(map(_is_host_path, _subjects(call)))


def _subjects(call: ast.Call) -> Iterator[ast.expr]:
    """Yield what a call may be about: its object, or its arguments."""
    if isinstance(call.func, ast.Attribute):
        yield call.func.value
    yield from call.args


def _is_host_path(subject: ast.expr) -> bool:
    """Whether it is a HostRoot, or a path of one."""
    match subject:
        case ast.Call(func=ast.Attribute(attr="path", value=owner)):
            subject = owner
        case _:
            pass
    return bool(HOST_ROOT.match(ast.unparse(subject)))


def _imported_programs(tree: ast.AST) -> frozenset[str]:
    return frozenset(
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "agent.programs"
        for alias in node.names
        if alias.name in PROGRAMS
    )


def _misses_root(call: ast.Call, programs: frozenset[str]) -> bool:
    """Whether a program is started without the host's root."""
    return ast.unparse(call.func) in programs and not any(k.arg == "root" for k in call.keywords)


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(AGENT.rglob("*.py")):
        name = path.relative_to(AGENT).as_posix()
        if not name.startswith(OUTSIDE):
            yield name, path.read_text()


@pytest.mark.exhaustive
def test_no_module_reaches_the_host_past_its_root() -> None:
    found = {name: accesses for name, text in modules() if (accesses := direct_accesses(text))}
    wrong = {
        name: accesses
        for name, accesses in found.items()
        if len(accesses) != ALLOWED.get(name, (0, ""))[0]
    }
    assert wrong == {}
    assert ALLOWED.keys() - found.keys() == set(), "these are direct no more: take them off"


@pytest.mark.parametrize(
    "planted",
    [
        'open("/proc/loadavg")',
        'Path("/etc/os-release").read_text()',
        "os.statvfs(folder)",
        'Path(root, "proc/1/mountinfo").exists()',
        'asyncio.open_unix_connection("/run/containerd/containerd.sock")',
        "MessageBus(bus_type=BusType.SYSTEM)",
        "glob.glob(pattern)",
        'asyncio.create_subprocess_exec("journalctl")',
    ],
)
def test_a_planted_direct_access_is_found(planted: str) -> None:
    assert direct_accesses(f"value = {planted}\n") == [f"1: {planted}".replace('"', "'")]


def test_a_program_without_the_root_is_found() -> None:
    planted = "from agent.programs import run\nasync def a():\n    await run(argv, 1.0)\n"
    assert direct_accesses(planted) == ["3: run(argv, 1.0)"]
    assert direct_accesses(planted.replace("1.0)", "1.0, root=root)")) == []


@pytest.mark.parametrize(
    "through",
    [
        'HostRoot(root).read_text("proc/loadavg")',
        'self._files.statvfs("/var")',
        "open(files.path(name), 'rb')",
        "asyncio.open_unix_connection(files.path(socket))",
    ],
)
def test_an_access_through_the_root_is_none(through: str) -> None:
    assert direct_accesses(f"value = {through}\n") == []
