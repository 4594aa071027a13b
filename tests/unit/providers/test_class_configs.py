"""What a class may say of its machines: errors name field, value and remedy."""

from typing import Any

import pytest

from kubenode.providers.class_configs import MOST_CONFIG, AlibabaConfig, config_problems

GROUP = "/subscriptions/6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f9/resourceGroups/nodes/providers"
GOOD: dict[str, dict[str, Any]] = {
    "aws": {
        "instanceType": "m5.large",
        "imageID": "ami-0123456789abcdef0",
        "subnetID": "subnet-0123456789abcdef0",
        "securityGroupIDs": ["sg-0123456789abcdef0"],
        "rootVolume": {"sizeGiB": 50},
        "tags": {"team": "shop", "kubernetes.io/cluster/shop": "owned"},
    },
    "azure": {
        "resourceGroup": "nodes",
        "location": "westeurope",
        "vmSize": "Standard_D4s_v5",
        "image": {"publisher": "Debian", "offer": "debian-12", "sku": "12-gen2"},
        "subnetID": f"{GROUP}/Microsoft.Network/virtualNetworks/v/subnets/s",
        "sshPublicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 admin",
    },
    "alibaba": {
        "instanceType": "ecs.g7.large",
        "imageID": "debian_12_10_x64_20G_alibase_20250225.vhd",
        "vSwitchID": "vsw-bp1s5fnvk4gn2tws0001",
        "securityGroupIDs": ["sg-bp15ed6xe1yxeycg0001"],
    },
    "local": {"memory": "512M", "image": "debian-12"},
}


@pytest.mark.parametrize("provider", GOOD)
def test_what_a_provider_knows_is_fine(provider: str) -> None:
    assert config_problems(provider, GOOD[provider]) == []


@pytest.mark.parametrize("provider", [name for name in GOOD if name != "local"])
def test_an_empty_config_names_each_field_that_is_missing(provider: str) -> None:
    told = config_problems(provider, {})
    assert told and all(
        line.endswith("required and missing: add it") or "name one" in line for line in told
    )


@pytest.mark.parametrize(
    "provider, change, says",
    [
        ("aws", {"keyNam": "k"}, 'keyNam: "k" is an unknown field: did you mean keyName?'),
        ("aws", {"imageID": "debian-12"}, 'imageID: "debian-12" does not have the form'),
        ("aws", {"securityGroupIDs": []}, "securityGroupIDs: [] is too short: give 1 or more"),
        ("aws", {"rootVolume": {"sizeGiB": 0}}, "rootVolume.sizeGiB: 0 is too small: write 1"),
        ("aws", {"tags": {"Kubenode-Cluster": "x"}}, "tags: tag 'Kubenode-Cluster' is Kube"),
        ("aws", {"tags": {"": "x"}}, "tags: tag '' is KubeNode's own"),
        ("azure", {"tags": {"a/b": "x"}}, "tags: tag 'a/b': Azure takes none of"),
        ("azure", {"imageID": f"{GROUP}/Microsoft.Compute/images/i"}, "image: name one image"),
        ("azure", {"location": "West Europe"}, 'location: "West Europe" does not have the form'),
        ("azure", {"adminPassword": "hunter2"}, "adminPassword"),
        ("azure", {"diskType": "Fast"}, 'diskType: "Fast" is not known: write Premium_LRS'),
        ("alibaba", {"diskSizeGiB": 10}, "diskSizeGiB: 10 is too small: write 20 or more"),
        ("alibaba", {"instanceType": "g7.large"}, 'instanceType: "g7.large"'),
        ("local", {"a b": 1}, "'a b': is no name of a value"),
        ("local", {"a": "x" * MOST_CONFIG}, "bytes as JSON: write 16384 at most"),
        ("gcp", {}, "provider: 'gcp' makes no machines: write one of local, aws, azure, alibaba"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_remedy(
    provider: str, change: dict[str, Any], says: str
) -> None:
    told = config_problems(provider, GOOD.get(provider, {}) | change)
    assert [says in line for line in told] == [True]


def test_names_are_as_people_write_them() -> None:
    config = AlibabaConfig.model_validate(GOOD["alibaba"])
    assert config.v_switch_id == GOOD["alibaba"]["vSwitchID"]
