"""Settings and start: what is wrong is named, with the remedy, before anything runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent import settings
from agent.main import USAGE, main
from agent.settings import AgentSettingsError

GOOD = 'node = "n1"\nserver = "http://127.0.0.1:1"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "agent.toml"
    path.write_text(GOOD)
    return path


def test_the_environment_rules_over_the_file(config: Path) -> None:
    loaded = settings.load({"KUBENODE_AGENT_NODE": "n2"}, str(config))
    assert (loaded.node, loaded.agent_name) == ("n2", "n2")
    assert settings.load({"KUBENODE_AGENT_AGENT": "m-7"}, str(config)).agent_name == "m-7"
    assert settings.load({"KUBENODE_AGENT_CONFIG": str(config)}).node == "n1"


def test_the_operator_may_have_a_token_of_its_own(tmp_path: Path, config: Path) -> None:
    token = tmp_path / "token"
    token.write_text("x")
    name = "KUBENODE_AGENT_OPERATOR_TOKEN_FILE"
    assert settings.load({name: str(token)}, str(config)).operator_token_file == str(token)
    with pytest.raises(settings.AgentSettingsError, match=name):
        settings.load({name: str(tmp_path / "missing")}, str(config))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "node is not set: write it into"),
        ("node = ", "is no TOML"),
        ('node = "n"\nserver = "10.0.0.1"', "server '10.0.0.1': give it as https://HOST:PORT"),
        ('node = "n"\nserver = "https://h:1"', "no identity: set cert_file and key_file"),
        (
            'node = "n"\nserver = "https://h:1"\ntoken_file = "/dev/null"'
            '\nbootstrap_token_file = "/x"',
            "bootstrap_token_file is for agents that keep their certificate themselves",
        ),
        (GOOD + 'certificate_life = "721h"', "certificate_life '721h': give 10m to 720h"),
        (GOOD + 'certificate_life = "long"', "certificate_life 'long': give 10m to 720h"),
        (GOOD + 'cert_file = "/x"', "cert_file and key_file go together"),
        (GOOD + 'ca_file = "/no/ca.crt"', "ca_file /no/ca.crt: No such file or directory; put it"),
        (GOOD + 'log_level = "loud"', "log_level 'loud': one of debug, info"),
        (GOOD + "state_dir = 5", "Expected `str`, got `int` - at `$.state_dir`, value 5"),
        (
            GOOD + 'colour = "red"',
            "unknown field `colour`; there are: node, server, agent, ca_file",
        ),
        (GOOD + 'colour = "red"', "agent.toml: Object contains unknown field"),
        (
            GOOD + "[detectors]\nnpd_configs = 4",
            "got `int` - at `$.detectors.npd_configs`, value 4",
        ),
        (GOOD + "[detectors]\ncolour = 4", "unknown field `colour` - at `$.detectors`"),
        (GOOD + "[checks.a-b]\nargv = 4", "at `$.checks[...].argv`"),
    ],
)
def test_a_wrong_setting_is_named(config: Path, text: str, complaint: str) -> None:
    config.write_text(text)
    with pytest.raises(AgentSettingsError) as error:
        settings.load({}, str(config))
    assert complaint in str(error.value)


def test_a_missing_config_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AgentSettingsError, match="No such file"):
        settings.load({}, str(tmp_path / "none.toml"))


def test_a_start_that_cannot_work_is_exit_2_and_a_sentence(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(GOOD + 'boot_id_file = "/no/boot_id"\n')
    assert main([str(config)], {}) == USAGE
    assert "boot_id_file /no/boot_id cannot be read" in capsys.readouterr().err
    config.write_text(GOOD + 'state_dir = "/proc/kubenode"\n')
    assert main([str(config)], {}) == USAGE
    assert "journal folder /proc/kubenode/requests" in capsys.readouterr().err
    assert main(["--verbose"], {}) == USAGE
    assert main(["--help"], {}) == 0


def test_a_broken_certificate_is_named(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = config.with_name("agent.pem")
    broken.write_text("no certificate")
    config.write_text(
        f'node = "n1"\nserver = "https://127.0.0.1:1"\nstate_dir = "{config.parent}"\n'
        f'cert_file = "{broken}"\nkey_file = "{broken}"\n'
    )
    assert main([str(config)], {}) == USAGE
    assert str(broken) in capsys.readouterr().err


def test_the_program_loads_no_package_of_the_operators() -> None:
    heavy = ["kubernetes", "pydantic", "prometheus_client", "structlog", "kubenode.api", "rich"]
    code = f"import sys, agent.main; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
