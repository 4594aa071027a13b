"""Builds the files of a release, and uploads nothing: `python -m devtools.release FOLDER`.

    kubenode-VERSION-*.whl, kubenode_simulation-VERSION-*.whl
    kubenode-VERSION.tgz             the chart, for `helm install`
    kubenode-images-VERSION.tar.gz   the recipe of the images: `sh images/build.sh FOLDER` in it
    NAME.cdx.json                    the content of each image, as CycloneDX
    SHA256SUMS                       digests of all of them, for `sha256sum -c`

The version is the one in pyproject.toml. The same files and commit time give the same bytes.
"""

import gzip
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path

from agent.packages.build import epoch, project_version
from images.sbom import write_boms

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "kubenode"
PLACES = {
    "charts/kubenode/Chart.yaml": (r"^version: (.+)$", r"^appVersion: (.+)$"),
    "simulation/pyproject.toml": (r'^version = "(.+)"$', r'"kubenode==(.+?)"'),
    "machine/library/kubenode-agent.yaml": (
        r"^metadata: {name: kubenode-agent-(.+)}$",
        r"^  version: (.+)$",
        r"{name: kubenode-agent, version: (.+)}$",
        r"/proven, (.+)\]}$",
        r"^  component: kubenode-agent-(.+)$",
    ),
}
"""Patterns of the version in files that cannot read it from pyproject.toml."""
COPIED = re.compile(r"^COPY (?!--from)(.+) \S+$", re.M)
CACHES = "__pycache__"
SUMS = "SHA256SUMS"


class CannotRelease(Exception):
    """The text names the file, what is wrong with it and what to do."""


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("use: python -m devtools.release FOLDER\n")
        return 2
    try:
        files = release(Path(arguments[0]))
    except CannotRelease as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    sys.stdout.write("".join(f"{file}\n" for file in files))
    return 0


def release(folder: Path) -> list[Path]:
    """Build every file into `folder` and return their paths. Raises CannotRelease."""
    version = project_version()
    check_versions(version, {name: (ROOT / name).read_text() for name in PLACES})
    if folder.is_dir() and any(folder.iterdir()):
        raise CannotRelease(f"folder {folder} is not empty; remove it, or name another one")
    folder.mkdir(parents=True, exist_ok=True)
    build_wheels(folder)
    pack(folder / f"kubenode-{version}.tgz", "kubenode", CHART, chart_files())
    recipe = f"kubenode-images-{version}"
    pack(folder / f"{recipe}.tar.gz", recipe, ROOT, recipe_files())
    write_boms(folder)
    (folder / SUMS).write_text(digests(folder.iterdir()))
    return sorted(folder.iterdir())


def check_versions(version: str, texts: Mapping[str, str]) -> None:
    """Raise CannotRelease unless the files of PLACES name `version`, and Helm accepts it."""
    if re.fullmatch(r"\d+\.\d+\.\d+", version) is None:
        raise CannotRelease(f"pyproject.toml: version {version} is not of the form 1.2.3")
    for name, patterns in PLACES.items():
        for pattern in patterns:
            match = re.search(pattern, texts[name], re.M)
            if match is None or match[1] != version:
                other = f"{match[0]!r}" if match else "no version"
                raise CannotRelease(
                    f"{name}: {other} where pyproject.toml says {version}; write {version} there"
                )


def build_wheels(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    built = subprocess.run(
        [*pip, "-w", folder, ROOT, ROOT / "simulation"],
        env=epoch(),
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        raise CannotRelease(f"pip wheel failed: {built.stderr[-2000:]}")


def chart_files() -> Iterator[Path]:
    """Yield the files of the chart that .helmignore does not exclude."""
    lines = (CHART / ".helmignore").read_text().split("\n")
    patterns = [line.strip("/") for line in lines if line and not line.startswith("#")]
    for file in files_below(CHART):
        parts = file.relative_to(CHART).parts
        if not any(fnmatch(part, pattern) for part in parts for pattern in patterns):
            yield file


def recipe_files() -> Iterator[Path]:
    """Yield what images/build.sh reads: its own folder, and what the Containerfile copies."""
    copied = COPIED.findall((ROOT / "images" / "Containerfile").read_text())
    names = {name for line in copied for name in line.split() if not name.startswith("images/")}
    for name in sorted({*names, "images"}):
        yield from files_below(ROOT / name)


def files_below(path: Path) -> Iterator[Path]:
    """Yield `path` if it is a file, else every file below it, without caches of bytecode."""
    below = [path] if path.is_file() else sorted(path.rglob("*"))
    yield from (file for file in below if file.is_file() and CACHES not in file.parts)


def pack(archive: Path, name: str, root: Path, files: Iterable[Path]) -> None:
    """Write `files` below `root` into a folder `name` of a .tar.gz that depends on them alone."""
    made_at = int(epoch()["SOURCE_DATE_EPOCH"])
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for file in files:
            entry, content = tarfile.TarInfo(f"{name}/{file.relative_to(root)}"), file.read_bytes()
            entry.size, entry.mtime = len(content), made_at
            entry.mode = 0o755 if file.stat().st_mode & 0o100 else 0o644
            tar.addfile(entry, io.BytesIO(content))


def digests(files: Iterable[Path]) -> str:
    """Return the lines that `sha256sum` prints."""
    return "".join(f"{sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in sorted(files))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
