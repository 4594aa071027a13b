"""Redacts likely secrets in a text of a host.

This is best effort: a secret that looks like an ordinary word, without a name beside it, stays.

The work is linear in the length of the text, whatever a tenant writes into it. The patterns are
RE2's, each line is processed separately and cut at LINE_BYTES, and the rest of a line is hidden
after MOST_VALUES secrets. If the end of a value is uncertain, the value is the rest of the line.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import re2

from agent.patience import beside

HIDDEN = "[hidden]"
LINE_BYTES = 4096
"""Maximum bytes kept of a line; kubelet quotes whole outputs of pods in one line."""
MOST_VALUES = 16
"""Maximum secrets of a line that are hidden individually."""
PIECE_BYTES = 64 * 1024
"""Bytes processed at a time; the event loop waits for at most one piece."""
BLOCK_LINES = 400
"""Maximum lines hidden after one BEGIN, or after one key with its value below it."""
PATTERN_BYTES = 8 * 1024 * 1024

_HIDDEN = HIDDEN.encode()
_NAME = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|token|credential|cookie|signature|private[-_.]?key"
    r"|(?:api|access|account|shared|secret|encryption|signing|certificate|master)[-_.]?key"
    r"|key[-_]data|tls\.key|ssh[-_]key|connection[-_]?string|dockerconfigjson|dockercfg)"
)
_WORD = rf"[\w.\-]*{_NAME}[\w.\-]*"
_ASSIGNED = r"[\]\\\"']*\s*(?:[:=]|=>)"
_NAMED = (
    rf"(?P<name>{_WORD}){_ASSIGNED}"
    rf"|(?:^|[\s\"'\[(,])--?(?P<flag>{_WORD})[\"',\s]"
    rf"|(?P<env>{_WORD})[\\\"']*[,\s]+[\\\"']*value[\\\"']*\s*[:=]"
    rf"|\b(?:pass|auth|identitytoken|x-amz-signature){_ASSIGNED}"
    rf"|(?P<header>authorization|cookie){_ASSIGNED}|\b(?P<digest>digest)\s+\w+="
    r"|[?&;](?:sig|sign|key|code|pass|auth)="
    r"|\bcurl\b[^|]*?\s(?:-u|-U|--user|--proxy-user)(?:[=\s])"
    r"|\s-u\s+[^\s:]+:"
    r"|\bsshpass\s+-p"
)
_PLAIN = re.compile(
    r"(?:file|path|dir|folder|names?|ttl|seconds|audiences?|expiration|timeout|webhook|refs?)$",
    re.IGNORECASE,
)
"""Endings of names whose values are not secrets, as in `tokenFile` and `secretName`."""
_SHAPES = (
    r"gh[opsur]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}|xox[a-z]-[\w-]{4,}|xapp-[\w-]{8,}"
    r"|hv[bsr]\.[\w-]{6,}|\bs\.[A-Za-z0-9]{24}\b|AIza[\w-]{16,}|ya29\.[\w-]{8,}"
    r"|\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{12,}|npm_\w{16,}|pypi-[\w-]{16,}|\bsk-[\w-]{16,}"
    r"|\b[rsw][kh](?:_live|_test|sec)_\w{8,}|\bSG\.[\w-]{8,}\.[\w-]{8,}|dckr_pat_[\w-]{8,}"
    r"|do[opr]_v1_\w{16,}|AGE-SECRET-KEY-1\w+|\b[a-z0-9]{6}\.[a-z0-9]{16}\b"
    r"|eyJ[\w-]{8,}(?:\.[\w-]*){0,4}|LS0tLS1CRUdJTi[\w+/=-]*"
    r"|hooks\.slack\.com/[\w/+-]+"
)
_AUTHORITY = r"://([^/\s:@]*:[^/\s@]+|[^/\s:@]{16,})@"
_SCHEME = r"(?i:\b(?:basic|bearer|negotiate|apikey))\s+([^\s\"',;]{6,})"
"""Schemes of HTTP authentication, also without a header's name."""
_LONG = r"[A-Za-z0-9+/_=-]{24,}"
_BEGIN = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----"
_END = r"-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----"
_MATERIAL = (
    r"^[\s|>#+*-]*(?:[A-Za-z0-9+/=]{4,}[\"',\\]*|(?:Proc-Type|DEK-Info|Version|Comment): .*)?\s*$"
)
"""A line of a key between BEGIN and END, without a log's prefix."""
_PREFIX = r"^\S+ \S+ [^\s:]+: "
"""Prefix that journalctl writes before a message."""
_KEY_OF_BLOCK = rf"(?:(?P<name>{_WORD})|\bauth)[\"']*\s*:\s*(?:[|>][-+0-9]*)?\s*$"
_NAME_OF_ENV = rf"\bname[\"']*\s*[:=]\s*[\"']*(?P<name>{_WORD})[\"',]*\s*$"
_VALUE = r"\bvalue[\"']*\s*[:=]"


def _compiled(pattern: str, *, any_case: bool = False) -> Any:
    options = re2.Options()
    options.log_errors, options.max_mem = False, PATTERN_BYTES
    options.case_sensitive = not any_case
    return re2.compile(pattern, options)


_named = _compiled(_NAMED, any_case=True)
_shapes, _authority, _scheme, _long = map(_compiled, (_SHAPES, _AUTHORITY, _SCHEME, _LONG))
_begin, _end, _material, _prefix = map(_compiled, (_BEGIN, _END, _MATERIAL, _PREFIX))
_key_of_block = _compiled(_KEY_OF_BLOCK, any_case=True)
_name_of_env = _compiled(_NAME_OF_ENV, any_case=True)
_value = _compiled(_VALUE, any_case=True)
_SUSPECT = (_NAMED, _SHAPES, _AUTHORITY, _SCHEME, _BEGIN, _KEY_OF_BLOCK, _NAME_OF_ENV)
_suspect = _compiled(
    "|".join(re.sub(r"\?P<\w+>", "?:", fragment) for fragment in _SUSPECT), any_case=True
)
"""Matches each line that one of the patterns except `_long` may match."""


def redacted(text: str) -> str:
    """Redact a short text; all of it is processed in one call."""
    redactor = Redactor()
    return "\n".join(redactor.line(line) for line in text.split("\n"))


async def redacted_beside(text: str) -> str:
    """Redact a text as `redacted` does, piece by piece in a thread, so that the event loop
    continues.
    """
    redactor, done = Redactor(), []
    for piece in _pieces(text):
        # The thread has ended before `piece` changes.
        done.append(await beside(lambda: [redactor.line(item) for item in piece], "redaction"))  # noqa: B023
    return "\n".join(line for lines in done for line in lines)


def _pieces(text: str) -> Iterator[list[str]]:
    piece: list[str] = []
    size = 0
    for line in text.split("\n"):
        piece.append(line)
        size += min(len(line), LINE_BYTES)
        if size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    yield piece


class Redactor:
    """Redacts the lines of one text, in order.

    search: finds a pattern in a line from a position on; replaceable, to count the work
    """

    def __init__(self, search: Callable[[Any, bytes, int], Any] | None = None) -> None:
        self._search = search or (lambda pattern, line, at: pattern.search(line, at))
        self._key_lines = 0
        self._block_lines = self._block_indent = 0
        self._env_value = False

    def line(self, text: str) -> str:
        """Return the line without its secrets, cut at LINE_BYTES."""
        line = text[:LINE_BYTES].encode(errors="replace")[:LINE_BYTES]
        within = self._key_lines or self._block_lines or self._env_value
        if not within and self._search(_suspect, line, 0) is None:
            shown = self._hide(line, _long, 0, _is_random)
        elif (whole := self._whole_line(line)) is not None:
            shown = whole
        else:
            shown = self._hide_patterns(self._named_values(self._key_begun(line)))
        excess = len(text) - LINE_BYTES
        return shown.decode(errors="replace") + (f" [{excess} more characters]" * (excess > 0))

    def _whole_line(self, line: bytes) -> bytes | None:
        """Redact a line within a key or block that began above; None if the line belongs to
        none.
        """
        start = self._body(line)
        if self._key_lines:
            self._key_lines -= 1
            if self._search(_end, line, start):
                self._key_lines = 0
                return line[:start] + _HIDDEN
            if self._search(_material, line[start:], 0):
                return line[:start] + _HIDDEN
            self._key_lines = 0
        body = line[start:]
        indent = len(body) - len(body.lstrip())
        if self._block_lines:
            self._block_lines -= 1
            if not body.strip() or indent > self._block_indent:
                return line[: start + indent] + (_HIDDEN if body.strip() else b"")
            self._block_lines = 0
        if self._env_value:
            self._env_value = False
            if match := self._search(_value, line, start):
                return line[: match.end()] + b" " + _HIDDEN
        if (match := self._search(_key_of_block, line, start)) and _is_secret(match):
            self._block_lines, self._block_indent = BLOCK_LINES, indent
            return line
        self._env_value = self._search(_name_of_env, line, start) is not None
        return None

    def _body(self, line: bytes) -> int:
        """Return the position of the message after the journal's prefix."""
        match = self._search(_prefix, line[:256], 0)
        return int(match.end()) if match else 0

    def _key_begun(self, line: bytes) -> bytes:
        """Hide a private key until its END or the end of the line. In the latter case, the next
        lines follow.
        """
        if (begun := self._search(_begin, line, 0)) is None:
            return line
        if (end := self._search(_end, line, begun.end())) is not None:
            return line[: begun.start()] + _HIDDEN + self._key_begun_again(line[end.end() :])
        self._key_lines = BLOCK_LINES
        return line[: begun.start()] + _HIDDEN

    def _key_begun_again(self, rest: bytes) -> bytes:
        return _HIDDEN if self._search(_begin, rest, 0) else rest

    def _named_values(self, line: bytes) -> bytes:
        """Hide the value after each name, such as `password=`: within quotes, or to the end of
        the line.
        """
        shown, at = b"", 0
        for _ in range(MOST_VALUES):
            match = self._search(_named, line, at)
            if match is None:
                return shown + line[at:]
            shown += line[at : match.end()]
            at = match.end()
            if not _is_secret(match):
                continue
            headers = match.group("header") or match.group("digest")
            begin, end = (at, len(line)) if headers else _value_of(line, at)
            shown += line[at:begin] + (_HIDDEN if end > begin else b"")
            at = end
        return shown + (_HIDDEN if at < len(line) else b"")

    def _hide_patterns(self, line: bytes) -> bytes:
        for pattern, group, holds in (
            (_shapes, 0, None),
            (_authority, 1, None),
            (_scheme, 1, _is_credential),
            (_long, 0, _is_random),
        ):
            line = self._hide(line, pattern, group, holds)
        return line

    def _hide(
        self, line: bytes, pattern: Any, group: int, holds: Callable[[bytes], bool] | None
    ) -> bytes:
        shown, at, hidden = b"", 0, 0
        while (match := self._search(pattern, line, at)) is not None:
            if hidden == MOST_VALUES:
                return shown + _HIDDEN
            begin, end = match.span(group)
            if holds is None or holds(line[begin:end]):
                shown += line[at:begin] + _HIDDEN
                hidden += 1
            else:
                shown += line[at:end]
            at = end
        return shown + line[at:]


def _is_secret(match: Any) -> bool:
    groups = match.groupdict()
    name = next((word for word in groups.values() if word), b"")
    return not _PLAIN.search(name.decode(errors="replace")[-32:])


def _value_of(line: bytes, at: int) -> tuple[int, int]:
    """Return begin and end of the value at `at`: the text within quotes, otherwise the rest of
    the line.
    """
    begin = at
    while begin < len(line) and line[begin : begin + 1] in b" \t":
        begin += 1
    quote = begin
    while quote < len(line) and line[quote : quote + 1] == b"\\":
        quote += 1
    mark = line[begin : quote + 1]
    if mark[-1:] not in (b'"', b"'"):
        return begin, len(line)
    at = quote + 1
    while (end := line.find(mark, at)) >= 0:
        if len(mark) > 1 or line[end - 1 : end] != b"\\":
            return quote + 1, end
        at = end + 1
    return quote + 1, len(line)


def _is_credential(word: bytes) -> bool:
    """Whether it is not a word of a sentence, as in "Basic authentication" and "bearer token"."""
    return not word.rstrip(b".:").isalpha() or word[1:].lower() != word[1:]


def _is_random(word: bytes) -> bool:
    """Whether it mixes capitals, lower-case letters and digits, unlike hashes and paths; or is
    padded.
    """
    counts = (
        sum(48 <= byte <= 57 for byte in word),
        sum(65 <= byte <= 90 for byte in word),
        sum(97 <= byte <= 122 for byte in word),
    )
    if word.count(b"/") * 8 > len(word) or word.startswith(b"/"):
        return False
    padded = word.endswith(b"=") and len(word) % 4 == 0
    return padded or (min(counts) >= 2 and len(word) >= 20)
