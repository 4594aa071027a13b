"""Splits a text at the line ends of its format; str.splitlines knows more ends than a file has."""


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines
