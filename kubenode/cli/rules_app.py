"""What can be typed after `kubenode rules`. As in kubenode.cli.app nothing heavy is imported here."""

from pathlib import Path
from typing import Annotated

import typer

rules_app = typer.Typer(no_args_is_help=True, help="Write, check, test and look after rules.")


@rules_app.command("lint")
def lint(
    files: Annotated[list[Path], typer.Argument(help="YAML files, or folders of them.")],
) -> None:
    """Check rules without a cluster: each problem as file:line:col: field: problem, remedy."""
    from kubenode.cli.exits import explained
    from kubenode.cli.lint import lint as work

    with explained():
        raise typer.Exit(work(files))
