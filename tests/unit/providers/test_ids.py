"""Which machine a provider ID names, and that nothing else is taken for one."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.providers import ids

HEX = "0123456789abcdef"
NAME = st.from_regex(r"[a-z](?:[a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
UUID = st.uuids().map(str)
EC2 = st.builds(
    ids.Ec2,
    zone=st.sampled_from(["eu-west-1a", "us-gov-east-1b", "us-west-2-lax-1a"]),
    instance=st.one_of(st.text(HEX, min_size=8, max_size=8), st.text(HEX, min_size=17, max_size=17))
    .map("i-{}".format),
)  # fmt: skip
AZURE = st.one_of(
    st.builds(ids.AzureVM, UUID, st.sampled_from(["rg", "MC_a_b_westeurope", "a.(b)-c_d"]), NAME),
    st.builds(
        ids.AzureVM,
        UUID,
        st.just("rg"),
        st.integers(0, 9999).map(str),
        st.sampled_from(["aks-pool1-28371-vmss"]),
    ),
)
GCE = st.builds(
    ids.Gce,
    st.sampled_from(["shop-prod-1", "example.com:shop-prod"]),
    st.sampled_from(["europe-west1-b", "us-central1-ai1a"]),
    NAME,
)
ECS = st.builds(
    ids.Ecs,
    st.sampled_from(["cn-hangzhou", "ap-southeast-1"]),
    st.text(string.ascii_lowercase + string.digits, min_size=8, max_size=22).map("i-{}".format),
)


@given(EC2)
def test_ids_of_ec2_are_read_as_they_are_written(made: ids.Ec2) -> None:
    assert ids.ec2(str(made)) == made


@given(AZURE)
def test_ids_of_azure_are_read_as_they_are_written(made: ids.AzureVM) -> None:
    assert ids.azure(str(made)) == made


@given(GCE)
def test_ids_of_google_are_read_as_they_are_written(made: ids.Gce) -> None:
    assert ids.gce(str(made)) == made


@given(ECS)
def test_ids_of_alibaba_are_read_as_they_are_written(made: ids.Ecs) -> None:
    assert ids.ecs(str(made)) == made
    assert ids.ecs(f"alicloud://{made}") == made


@given(st.one_of(EC2, AZURE, GCE, ECS), st.data())
def test_an_id_that_is_damaged_names_no_other_machine(
    made: ids.Ec2 | ids.AzureVM | ids.Gce | ids.Ecs, data: st.DataObject
) -> None:
    """A space, a slash or a line's end put anywhere, or a piece cut off the front."""
    text = str(made)
    at = data.draw(st.integers(0, len(text)))
    for broken in (f"{text[:at]} {text[at:]}", f"{text[:at]}\n{text[at:]}", f"{text}/", text[1:]):
        for parse in (ids.ec2, ids.gce, ids.ecs, ids.azure):
            try:
                read = str(parse(broken))
            except ids.BadID:
                continue
            assert read == broken and broken == text[1:]  # a shorter region is a region


@given(st.text(max_size=80))
def test_any_other_text_is_refused_with_the_form_that_is_wanted(text: str) -> None:
    for parse in (ids.ec2, ids.azure, ids.gce, ids.ecs):
        try:
            parse(text)
        except ids.BadID as error:
            assert "does not have the form" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "aws:///eu-west-1a/i-0abc",
        "aws:///eu-west-1a/fargate-ip-10-0-1-2.eu-west-1.compute.internal",
        "aws://eu-west-1a/i-0123456789abcdef0",
        "azure:///subscriptions/x/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/a",
        "azure:///subscriptions/6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f9/resourceGroups/rg/providers"
        "/Microsoft.Compute/virtualMachineScaleSets/set/virtualMachines/name",
        "azure:///subscriptions/6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f9/resourceGroups/../providers"
        "/Microsoft.Compute/virtualMachines/a/../b",
        "gce://shop-prod-1/europe-west1-b/../x",
        "gce:///europe-west1-b/x",
        "cn-hangzhou.",
        "i-bp67acfmxazb4ph00001",
        "",
        "a" * 5000,
    ],
)
def test_what_is_nearly_an_id_is_none(text: str) -> None:
    for parse in (ids.ec2, ids.azure, ids.gce, ids.ecs):
        with pytest.raises(ids.BadID) as told:
            parse(text)
        assert len(str(told.value)) < 400


@pytest.mark.parametrize(
    ("zone", "region", "inside"),
    [
        ("us-east-1a", "us-east-1", True),
        ("us-west-2-lax-1a", "us-west-2", True),
        ("us-east-10a", "us-east-1", False),
        ("us-east-1", "us-east-1", False),
        ("eu-west-1a", "us-east-1", False),
    ],
)
def test_a_zone_is_of_its_region_only(zone: str, region: str, inside: bool) -> None:
    assert ids.in_region(zone, region) is inside
