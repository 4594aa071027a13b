"""Programs of the host that have to end well."""

from collections.abc import Sequence

from agent.components.ports import Runner
from agent.host import HostError


async def checked(runner: Runner, argv: Sequence[str], limit: float, name: str = "") -> None:
    """limit: seconds. Raises HostError with the end of what the program wrote."""
    try:
        ran = await runner.run(argv, limit, name)
    except TimeoutError as error:
        raise HostError(f"{argv[0]}: no end in {limit:g} s") from error
    if ran.code != 0:
        raise HostError(f"{argv[0]} for components: {ran.output[-800:]}")
