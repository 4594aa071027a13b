"""A tutorial as its reader follows it: files saved as it says, commands typed in a shell.

    reader = Reader("docs/tutorial-first-rollout.md", folder)
    with reader.run_demo("rollout"):
        reader.type_block("kubectl apply -f node-exporter.yaml")
    assert reader.untyped_blocks() == []

The demo runs in the background, as in the reader's second terminal.
"""

import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.command import environment, freshly_started
from support.components import control_plane_folder
from support.documented import BLOCK, ROOT
from support.waiting import until

SAVED = re.compile(r"Save as `([^`]+)`[^\n]*\n\n```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
DEMO = re.compile(r"^make demo(?: ARGS=\"([^\"]*)\")?$", re.MULTILINE)
KUBECONFIG = re.compile(r"kubectl --kubeconfig (\S+)")
HISTORY = re.compile(r"history: (http\S+)")
COMMAND_SECONDS = 60.0
START_SECONDS = 120.0
LINES_KEPT = 200
UNTYPED = re.compile(
    r"^(?:export (?:PATH|KUBECONFIG|KUBENODE_INSIGHT_URL)=.*|make venv)$\n?", re.MULTILINE
)
"""What `Reader` sets itself: the path of a checkout, and addresses of the running demo."""


class Reader:
    """Reader of one page, who types its blocks in `folder`.

    variables: what the page sets in one block and reads in another.
    """

    def __init__(self, page: str, folder: Path, **variables: str) -> None:
        text = (ROOT / page).read_text()
        self.folder, self._variables = folder, variables
        saved = SAVED.findall(text)
        for name, content in saved:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
        files = {content for _, content in saved}
        self._blocks: list[str] = [block for block in BLOCK.findall(text) if block not in files]
        self._typed: set[str] = set()
        self._kubeconfig = self._insight = ""
        self._output: deque[str] = deque(maxlen=LINES_KEPT)

    @contextmanager
    def run_demo(self, phrase: str, *more: str) -> Iterator[None]:
        """Run the demo of the block with this phrase; `more` are flags for a repeatable test."""
        block = self._block(phrase)
        match = DEMO.search(block)
        assert match is not None, block
        flags = (match[1] or "").split()
        with freshly_started("demo", *flags, *more, "--json", "--port", "0") as demo:
            lines, self._output = demo.stderr, deque(maxlen=LINES_KEPT)
            assert lines is not None
            follow = threading.Thread(target=self._output.extend, args=(lines,))
            follow.start()
            try:
                self._kubeconfig = until(
                    self._printed_kubeconfig, "a kubeconfig", START_SECONDS, self.demo_output
                )
                if any("KUBENODE_INSIGHT_URL" in each for each in self._blocks):
                    self._insight = until(
                        self._printed_history, "history", START_SECONDS, self.demo_output
                    )
                self._typed.add(block)
                yield
            finally:
                demo.send_signal(signal.SIGINT)
                demo.wait(COMMAND_SECONDS)
                follow.join(COMMAND_SECONDS)

    def save_block(self, phrase: str, name: str) -> None:
        """Save the first block with this phrase as a file."""
        block = self._block(phrase)
        (self.folder / name).write_text(block)
        self._typed.add(block)

    def type_block(self, phrase: str, *codes: int) -> str:
        """Type the first block with this phrase, and return its output.

        A command that fails ends the block. Raises AssertionError unless its code is one of
        `codes`, or 0 if there are none.
        """
        block = self._block(phrase)
        result = self._run(UNTYPED.sub("", block))
        assert result.returncode in (codes or (0,)), (
            f"{block}\n{result.stdout}\n{result.stderr}\n{self.demo_output()}"
        )
        self._typed.add(block)
        return result.stdout

    def wait_for_output(self, command: str, pattern: str, seconds: float) -> str:
        """Repeat one command of the page until its output matches. A block that has nothing else
        counts as typed.
        """
        assert any(command in block for block in self._blocks), f"{command}: not on the page"
        last = [""]

        def matches() -> bool:
            last[0] = self._run(command).stdout
            return re.search(pattern, last[0], re.MULTILINE) is not None

        until(
            matches,
            f"{command}: {pattern}",
            seconds,
            lambda: last[0] + self.demo_output(),
            every=1.0,
        )
        self._typed |= {block for block in self._blocks if block.strip() == command}
        return last[0]

    def untyped_blocks(self) -> list[str]:
        """Blocks that were not typed, except those that only set the shell of the reader."""
        return [
            block
            for block in self._blocks
            if block not in self._typed and UNTYPED.sub("", block).strip()
        ]

    def demo_output(self) -> str:
        """Last lines of the demo, for the message of a failure."""
        return "".join(list(self._output)[-10:])

    def _block(self, phrase: str) -> str:
        for block in self._blocks:
            if phrase in block:
                return block
        raise AssertionError(f"no block with {phrase!r}")

    def _printed_history(self) -> str:
        printed = HISTORY.search("".join(list(self._output)))
        return str(printed[1]) if printed else ""

    def _printed_kubeconfig(self) -> str:
        printed = KUBECONFIG.search("".join(list(self._output)))
        return str(printed[1]) if printed else ""

    def _run(self, text: str) -> subprocess.CompletedProcess[str]:
        variables = environment(KUBECONFIG=self._kubeconfig, HOME=str(self.folder))
        variables |= {"KUBENODE_INSIGHT_URL": self._insight, **self._variables}
        programs = (str(Path(sys.executable).parent), str(control_plane_folder()))
        variables["PATH"] = ":".join((*programs, variables["PATH"]))
        return subprocess.run(
            ("bash", "-euc", text),
            cwd=self.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
