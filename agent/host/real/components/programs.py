"""Programs of the host that must succeed."""

from collections.abc import Sequence

from agent.components.ports import CommandRunner
from agent.host import HostError
from agent.host.real.components.scripts import check_refusal


async def checked(
    runner: CommandRunner, argv: Sequence[str], limit: float, name: str = "", what: str = ""
) -> None:
    """Run the program. Raises HostError with the end of its output; Contraindicated for a refusal.

    limit: seconds
    what: field and value concerned, for a refusal
    """
    try:
        ran = await runner.run(argv, limit, name)
    except TimeoutError as error:
        raise HostError(f"{argv[0]}: no end in {limit:g} s") from error
    check_refusal(what, ran.code, ran.output)
    if ran.code != 0:
        raise HostError(f"{argv[0]} for components: {ran.output[-800:]}")
