"""The providers file: what is wrong is told with its place and what to do."""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from support.clock import FakeClock

from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.providers_file import CLASSES, MAKERS, built, configured, made_by, maker, provided
from kubenode.providers.instances import InstanceError, On, next_try
from kubenode.providers.port import ProviderMachine
from kubenode.providers.settings import MODELS, AwsSettings, RedfishSettings, StopInGroup

GOOD = """\
- type: aws
  region: eu-west-1
  stopInGroup: Allow
  connectTimeout: 2s
- {type: azure, subscription: 6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f9}
- {type: alibaba, region: cn-hangzhou}
- {type: gcp, project: shop-prod-1, discardLocalSsd: true}
- type: redfish
  within: [10.8.0.0/16, bmc.example.com]
  usernameFile: /etc/kubenode/bmc/username
  passwordFile: /etc/kubenode/bmc/password
- {type: local, command: /usr/local/bin/power --quiet}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "providers.yaml"


def told(file: Path, text: str) -> list[str]:
    file.write_text(text)
    with pytest.raises(Refusal) as refusal:
        configured(file)
    assert refusal.value.code is Exit.USAGE
    return [line.replace(str(file), "F") for line in str(refusal.value).splitlines()]


def test_every_provider_can_be_configured(file: Path) -> None:
    file.write_text(GOOD)
    entries = configured(file)
    assert [entry.type for entry in entries] == list(MODELS)
    aws = entries[0].settings
    assert isinstance(aws, AwsSettings)
    assert (aws.stop_in_group, aws.seconds) == (StopInGroup.ALLOW, (2.0, 15.0))
    redfish = entries[4].settings
    assert isinstance(redfish, RedfishSettings)
    assert redfish.verify_tls and redfish.check_host_name


def test_each_mistake_is_one_line_with_its_place_and_a_remedy(file: Path) -> None:
    lines = told(
        file,
        "- type: aws\n  region: Europe\n  secretKey: x\n"
        "- type: gpc\n"
        "- {type: alibaba, region: cn-hangzhou, readTimeout: 2h}\n"
        "- {type: redfish, within: [10.8.0.0/33], usernameFile: '/{node}', passwordFile: /p}\n"
        "- text\n",
    )
    assert [line.split(": ")[:2] for line in lines] == [
        ["F:2:3", "[0].region"],
        ["F:3:3", "[0].secretKey"],
        ["F:4:3", "[1].type"],
        ["F:5:40", "[2].readTimeout"],
        ["F:6:19", "[3].within"],
        ["F:6:42", "[3].usernameFile"],
        ["F:7:3", "[4].type"],
    ]
    assert all("write" in line for line in lines)


def test_a_secret_in_the_file_is_not_told_again(file: Path) -> None:
    (line,) = told(file, "- {type: aws, region: eu-west-1, secretKey: hunter2}\n")
    assert "hunter2" not in line and "secretKey: is no field: write no secrets" in line


@pytest.mark.parametrize("text", ["", "a: b\n", "[]\n", "- {type: aws\n", "--- []\n--- []\n"])
def test_a_file_that_is_no_list_of_providers_is_refused(file: Path, text: str) -> None:
    assert told(file, text)[0].startswith("F:")


def test_every_example_of_the_documentation_is_one(file: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "providers.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 2
    for example in examples:
        file.write_text(example)
        configured(file)


def test_a_file_that_is_not_there_is_refused(file: Path) -> None:
    with pytest.raises(Refusal, match="cannot be read"):
        configured(file)


def test_a_provider_without_its_sdk_says_how_to_get_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(GOOD)
    entry = configured(file)[0]
    monkeypatch.setitem(CLASSES, "aws", "boto3_that_is_not_there:Aws")
    with pytest.raises(Refusal, match=r'pip install "kubenode\[aws\]"'):
        built(entry, FakeClock())


async def test_without_a_file_there_are_no_providers() -> None:
    async with provided(None, FakeClock(), CollectorRegistry()) as providers:
        assert providers is None


@pytest.fixture
def two(file: Path) -> Path:
    file.write_text(
        "- {type: local, command: [a], prefix: 'x://'}\n"
        "- {type: local, command: 'b -c', prefix: 'x://'}\n"
    )
    return file


async def test_the_first_that_owns_a_machine_has_it(two: Path) -> None:
    async with provided(str(two), FakeClock(), CollectorRegistry()) as providers:
        assert providers is not None
        assert providers.of(ProviderMachine("y://n1", "n1")) is None
        mine = providers.of(ProviderMachine("x://n1", "n1"))
        assert mine is not None and mine.name == "local"


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ("{every: 1s}", "[0].events.every: out of bounds: write 10s to 1h"),
        ("{every: 2h}", "[0].events.every: out of bounds: write 10s to 1h"),
        ("{queueURL: kubenode}", "[0].events.queueURL: "),
        ("{queue: x}", "[0].events.queue: "),
    ],
)
def test_a_mistake_in_a_section_is_told_with_its_place(file: Path, events: str, words: str) -> None:
    (line,) = told(file, f"- {{type: aws, region: eu-west-1, events: {events}}}\n")
    assert words in line


# ---- who makes machines


@pytest.fixture
def racks(file: Path) -> Path:
    file.write_text(
        "- {type: local, name: rack-a, command: a}\n- {type: gcp, project: shop-prod-1}\n"
        "- {type: local, command: b, prefix: 'b://'}\n"
    )
    return file


async def test_who_makes_machines_is_called_by_name_else_by_type(racks: Path) -> None:
    registry = CollectorRegistry()
    async with made_by(str(racks), FakeClock(), registry) as instances:
        assert [one.name for one in instances.all] == ["rack-a", "local"]
        assert instances.of("local", "rack-a").name == "rack-a"
        owner = instances.owner("b://place/n1")
        assert owner is not None and owner.name == "local"
        assert instances.owner("gce://shop-prod-1/us-east1-b/n1") is None
    sample = registry.get_sample_value(
        "kubenode_instance_requests_total",
        {"provider": "local", "operation": "create", "code": "RESOURCE_EXHAUSTED"},
    )
    assert sample == 0


@pytest.mark.parametrize(
    ("provider", "credentials", "says"),
    [
        ("local", "other", "has no entry 'other' of type local: add one"),
        ("azure", "", "has no entry of type azure: add one"),
        ("gcp", "", "has no entry of type gcp: add one"),
        ("local", "", "has 2 of type local: name one of rack-a, local in credentialsRef"),
    ],
)
async def test_a_class_that_names_nobody_waits_for_the_file(
    racks: Path, provider: str, credentials: str, says: str
) -> None:
    async with made_by(str(racks), FakeClock(), CollectorRegistry()) as instances:
        with pytest.raises(InstanceError, match=says) as told:
            instances.of(provider, credentials)
    assert next_try(told.value.code, 1).on is On.CREDENTIALS


def test_two_entries_of_one_name_are_refused(file: Path) -> None:
    (line,) = told(
        file,
        "- {type: aws, name: x, region: eu-west-1}\n- {type: aws, name: x, region: eu-west-2}\n",
    )
    assert "name: 'x' is that of F:1:3 too: choose another" in line


def test_who_makes_machines_without_its_sdk_says_how_to_get_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(GOOD)
    entry = configured(file)[0]
    monkeypatch.setitem(MAKERS, "aws", "boto3_that_is_not_there:AwsInstances")
    with pytest.raises(Refusal, match=r'pip install "kubenode\[aws\]"'):
        maker(entry)


async def test_without_a_file_nobody_makes_machines() -> None:
    async with made_by(None, FakeClock(), CollectorRegistry()) as instances:
        assert instances.all == ()
