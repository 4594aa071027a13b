"""Names of the machines of a set, with an increasing number. No name is used twice.

The next number follows the highest known one, which is stored in the status of the set. If the
response to a create request is lost, the operator requests the same name again and gets a conflict.
Code that must know which of two machines is newer compares the numbers instead of timestamps of two
hosts.
"""

import hashlib

from kubenode.api.meta import ObjectMeta

LONGEST = 45
"""Maximum number of characters of the name of the set. The full name is also a hostname, with at
most 63."""


def beginning(machine_set: ObjectMeta) -> str:
    """Return the prefix of all names. Differs for a later set of the same name."""
    which = hashlib.sha256(machine_set.uid.encode()).hexdigest()[:5]
    return f"{machine_set.name[:LONGEST].replace('.', '-').rstrip('-')}-{which}-"


def name_of(machine_set: ObjectMeta, number: int) -> str:
    return f"{beginning(machine_set)}{number}"


def number_of(machine_set: ObjectMeta, name: str) -> int:
    """Return the number in the name, 0 for a name of another origin."""
    start = beginning(machine_set)
    rest = name[len(start) :] if name.startswith(start) else ""
    return int(rest) if rest.isascii() and rest.isdigit() else 0
