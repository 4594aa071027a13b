"""Takes out of a text what looks like a secret, as far as that can be told by its look."""

import re

_SECRET = re.compile(
    r"""
    (?P<keep>
        (?: authorization | proxy-authorization ) \s* [:=] \s* (?: bearer | basic )? \s*
      | \b (?: bearer ) \s+
      | (?: password | passwd | secret | token | api[-_]?key | access[-_]?key ) [\w-]* ["']? \s*
        [:=] \s* ["']?
    )
    (?P<value> [^\s"',;]+ )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LOOSE = re.compile(
    r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # a JSON web token
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # an AWS access key
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"  # user and password in an address
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
    re.DOTALL,
)
HIDDEN = "[hidden]"


def redacted(text: str) -> str:
    return _LOOSE.sub(HIDDEN, _SECRET.sub(rf"\g<keep>{HIDDEN}", text))
