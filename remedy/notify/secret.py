"""Secrets of the settings: read from a file or a variable each time they are used.

A secret that is mounted into a container changes under a running program; the next delivery reads
the new one. No part of its text goes into an error, a log or a status.
"""

import os
from pathlib import Path

from pydantic import Field, model_validator

from kubenode.api.base import Model, refusal

LONGEST = 64 * 1024
"""Bytes: anything longer is a mistake."""


class SecretUnreadable(Exception):
    """A secret is missing or cannot be read; the text names its place."""


class Secret(Model):
    """Where a secret is. Exactly one of the two."""

    from_file: str | None = Field(default=None, min_length=1, max_length=4096)
    from_env: str | None = Field(default=None, min_length=1, max_length=256)

    @model_validator(mode="after")
    def _check_place(self) -> "Secret":
        if (self.from_file is None) == (self.from_env is None):
            raise refusal("not one place: write either fromFile or fromEnv")
        return self

    def read(self) -> str:
        """Return the secret without the line end that editors add. Raises SecretUnreadable."""
        if self.from_env is not None:
            return _present(os.environ.get(self.from_env, ""), f"variable {self.from_env}")
        path = Path(self.from_file or "")
        try:
            with path.open("rb") as file:
                raw = file.read(LONGEST + 1)
            if len(raw) > LONGEST:
                raise SecretUnreadable(f"file {path} is longer than {LONGEST} bytes: name another")
            return _present(raw.decode().strip(), f"file {path}")
        except OSError as error:
            raise SecretUnreadable(f"file {path}: {error.strerror or 'cannot be read'}") from error
        except UnicodeDecodeError as error:
            raise SecretUnreadable(f"file {path} is no text: name another") from error


def _present(text: str, where: str) -> str:
    if not text:
        raise SecretUnreadable(f"{where} is empty: put the secret there")
    return text


def read(value: "str | Secret") -> str:
    """Return the value. Raises SecretUnreadable."""
    return value if isinstance(value, str) else value.read()
