"""Code of an older version, read from the repository's history."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from support.documented import ROOT


def extract(commit: str, folder: Path, *paths: str) -> Path:
    """Write these paths of `commit` into `folder` and return it.

    Skips the calling test if the repository is a shallow clone without the commit.
    """
    words = ("git", "-C", str(ROOT), "archive", commit, *paths)
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"the repository's history has no {commit}: clone it whole")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tree:
        tree.extractall(folder, filter="tar")  # the tests of hosts have a link to /usr/bin
    return folder
