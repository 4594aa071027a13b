"""Commands that the simulation adds to `kubenode`. Each imports what it runs when it runs."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from kubenode.cli.exits import Exit
from kubenode.cli.options import Plain


def demo(
    *,
    scenario: str,
    nodes: int | None,
    lasts: str | None,
    seed: int | None,
    speed: float | None,
    json: bool,
    port: int,
    seed_history: str | None,
) -> None:
    from simulation.demo.scenarios import RELEASE

    if scenario == RELEASE:
        from simulation.demo.release.main import ReleaseDemoOptions, run_release_demo

        flags = {"--nodes": nodes, "--seed": seed, "--speed": speed, "--seed-history": seed_history}
        run_release_demo(ReleaseDemoOptions.of(flags, lasts=lasts, json=json, port=port))
        return
    from simulation.demo.main import Options
    from simulation.demo.main import demo as start

    start(
        Options.of(
            scenario=scenario,
            nodes=nodes,
            lasts=lasts,
            seed=seed,
            speed=speed,
            json=json,
            port=port,
            seed_history=seed_history,
        )
    )


def test_rules(
    files: Sequence[Path],
    *,
    junit: Path | None,
    output: Literal["table", "json"],
    engine: Literal["both", "reference"],
    only: str,
) -> Exit:
    from simulation.replay.testing import command

    return command(files, junit=junit, output=output, engine=engine, only=only)


def replay(
    recordings: Sequence[str],
    *,
    rules: Sequence[Path],
    against: Sequence[Path],
    policy: Path | None,
    output: Literal["table", "json"],
) -> Exit:
    from simulation.replay.replay_command import command

    return command(recordings, rules=rules, against=against, policy=policy, output=output)


async def record(
    kubeconfig: str | None, context: str | None, *, out: str, lasts: timedelta | None
) -> Exit:
    from simulation.replay.record_command import command

    return await command(kubeconfig, context, out=out, lasts=lasts)


def explain_recording(
    node: str,
    rule: str,
    recordings: Sequence[str],
    *,
    rules: Sequence[Path],
    at: str | None,
    output: Plain,
) -> Exit:
    from simulation.replay.recorded_explanation import of_recording

    return of_recording(node, rule, recordings, rules=rules, at=at, output=output)


def score_cases(
    files: Sequence[Path], *, rules: Sequence[Path], output: Literal["json", "table"]
) -> Exit:
    from simulation.cases.command import command

    return command(files, rules=rules, output=output)


def report_coverage(*, data: Path | None, output: Literal["table", "json", "markdown"]) -> Exit:
    from simulation.coverage import command

    return command(data=data, output=output)


def build_rule_test_schema() -> dict[str, Any]:
    from simulation.replay.schema import of_rule_tests

    return of_rule_tests()
