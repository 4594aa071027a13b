"""The names of a set's machines: a number that grows, and none twice.

The next number follows from the highest that was seen, which the set's status remembers. So a
create whose answer was lost is asked for again under the same name, and finds it taken; and who
waits for a machine made after another compares numbers, not the clocks of two hosts.
"""

import hashlib

from kubenode.api.meta import ObjectMeta

LONGEST = 45
"""Characters of the set's name in it: the whole is a host's name too, with at most 63."""


def beginning(machine_set: ObjectMeta) -> str:
    """Of every name; other for a set of the same name that came later."""
    which = hashlib.sha256(machine_set.uid.encode()).hexdigest()[:5]
    return f"{machine_set.name[:LONGEST].replace('.', '-').rstrip('-')}-{which}-"


def name_of(machine_set: ObjectMeta, number: int) -> str:
    return f"{beginning(machine_set)}{number}"


def number_of(machine_set: ObjectMeta, name: str) -> int:
    """0 for a name that we did not give."""
    start = beginning(machine_set)
    rest = name[len(start) :] if name.startswith(start) else ""
    return int(rest) if rest.isascii() and rest.isdigit() else 0
