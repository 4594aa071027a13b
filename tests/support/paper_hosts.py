"""Hosts for a rack where only what is done to them matters."""

from dataclasses import dataclass, field


@dataclass
class PaperHost:
    """ran  commands, each with its standard input"""

    address: str = "10.88.7.11"
    ran: list[tuple[tuple[str, ...], str | None]] = field(default_factory=list)
    reboots: int = 0
    destroyed: bool = False

    def run(self, *argv: str, timeout: float = 60, stdin: str | None = None) -> None:
        self.ran.append((argv, stdin))

    def reboot(self) -> None:
        self.reboots += 1

    def destroy(self) -> None:
        self.destroyed = True
