"""A Containerfile as its stages, read without a container engine.

Words of an instruction are those of the builder: one line, continuations joined, no here-documents.
"""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Instruction:
    word: str
    text: str

    @property
    def words(self) -> list[str]:
        """Of the exec form, or split at blanks; options (`--from=...`) are among them."""
        if self.text.startswith("["):
            return [str(word) for word in json.loads(self.text)]
        return self.text.split()


@dataclass(frozen=True, slots=True)
class Stage:
    """`own` are the instructions of the stage itself, `all` with those of the stages below it.

    base  what FROM names: a stage, or an image
    """

    name: str
    base: str
    own: tuple[Instruction, ...]
    all: tuple[Instruction, ...]

    def last(self, word: str) -> Instruction:
        """The one that holds, where each takes the place of the one before."""
        return [each for each in self.all if each.word == word][-1]


def read(path: Path) -> tuple[list[Instruction], dict[str, Stage]]:
    """What comes before the first stage, and the stages in order by name."""
    before: list[Instruction] = []
    stages: dict[str, Stage] = {}
    name, base, own = "", "", list[Instruction]()
    for each in [*_instructions(path.read_text()), Instruction("FROM", "end AS end")]:
        if each.word == "FROM":
            if name:
                below = stages[base].all if base in stages else ()
                stages[name] = Stage(name, base, tuple(own), (*below, *own))
            base, _, name = each.text.partition(" AS ")
            own = []
        else:
            (own if name else before).append(each)
    return before, stages


def _instructions(text: str) -> list[Instruction]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    parts = (line.partition(" ") for line in joined.splitlines())
    return [Instruction(word.upper(), rest.strip()) for word, _, rest in parts]
