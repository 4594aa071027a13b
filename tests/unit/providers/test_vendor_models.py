"""The checks against the vendors' models find what a vendor would refuse."""

import json
from typing import Any

import pytest
from support.cloud_server import Answer, Request
from support.fake_alibaba import done
from support.fake_aws import scaling, xml
from support.vendor_models import AlibabaModel, AwsModel, AzureMachineModel

EC2, GROUPS = AwsModel("ec2"), AwsModel("autoscaling")
OK = Answer(200, {})


def aws_request(action: str, **form: str) -> Request:
    return Request("POST", "/", {"Action": action, "Version": "x", **form}, {}, b"")


def run(**form: str) -> list[str]:
    fixed = {"MinCount": "1", "MaxCount": "1", **form}
    return EC2.check(aws_request("RunInstances", **fixed), xml("RunInstances", ""))


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"ImageID": "ami-1"}, "ImageID is unknown"),
        ({"TagSpecification.1.Tags.1.Key": "a"}, "Tags is unknown"),
        ({"MetadataOptions.HttpTokens": "always"}, "'always' is none of ['optional', 'required']"),
        ({"BlockDeviceMapping.1.Ebs.VolumeSize": "50G"}, "'50G' is no integer"),
        ({"EbsOptimized": "yes"}, "'yes' is no boolean"),
        ({"SecurityGroupId.first": "sg-1"}, "'first' is no number of a list"),
        ({"ImageId.1": "ami-1"}, "a string has no members"),
    ],
)
def test_a_request_that_ec2_refuses_is_found(form: dict[str, str], problem: str) -> None:
    (found,) = run(**form)
    assert found.startswith("request RunInstances") and problem in found


def test_a_request_that_ec2_takes_passes() -> None:
    tag = {"TagSpecification.1.ResourceType": "instance", "TagSpecification.1.Tag.1.Key": "a"}
    assert run(ImageId="ami-1", **tag) == []
    names = {"InstanceIds.member.1": "i-1"}
    member = "<member><InstanceId>i-1</InstanceId></member>"
    inside = f"<AutoScalingInstances>{member}</AutoScalingInstances>"
    request = aws_request("DescribeAutoScalingInstances", **names)
    assert GROUPS.check(request, scaling("DescribeAutoScalingInstances", inside)) == []


def test_a_missing_parameter_is_found() -> None:
    (found,) = EC2.check(aws_request("TerminateInstances"), xml("TerminateInstances", ""))
    assert "InstanceIds is required" in found


@pytest.mark.parametrize(
    ("inside", "problem"),
    [
        ("<instances/>", "instances is unknown"),
        ("<instancesSet><member/></instancesSet>", "entry member, expected item"),
        ("<instancesSet><item><imageId>a</imageId></item></instancesSet>", "imageId is unknown"),
    ],
)
def test_an_answer_that_ec2_never_gives_is_found(inside: str, problem: str) -> None:
    request = aws_request("TerminateInstances", **{"InstanceId.1": "i-1"})
    (found,) = EC2.check(request, xml("TerminateInstances", inside))
    assert found.startswith("answer TerminateInstances") and problem in found


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"location": "x", "vmSize": "a"}, "request.vmSize is unknown"),
        ({"properties": {}}, "request.location is required"),
        ({"location": "x", "zones": "1"}, "request.zones: '1' is no list"),
        ({"location": "x", "tags": "a"}, "request.tags: 'a' is no map"),
        ({"location": "x", "properties": {"osProfile": {"user": "a"}}}, "user is unknown"),
        ({"location": ["x"]}, "is a list"),
    ],
)
def test_a_body_that_azure_refuses_is_found(body: dict[str, Any], problem: str) -> None:
    request = Request("PUT", "/x", {}, {}, json.dumps(body).encode())
    (found,) = AzureMachineModel().check(request, OK)
    assert problem in found


def test_an_answer_that_azure_never_gives_is_found() -> None:
    request = Request("GET", "/x", {}, {}, b"")
    listed = Answer(200, {"value": [{"properties": {"vmID": "1"}}]})
    assert AzureMachineModel().check(request, listed) == ["answer.properties.vmID is unknown"]


@pytest.mark.parametrize(
    ("action", "form", "body", "problem"),
    [
        ("RunInstances", {"ImageID": "a"}, {}, "request RunInstances.ImageID is unknown"),
        ("RunInstances", {"Tag.1.Name": "a"}, {}, "request RunInstances.Tag.Name is unknown"),
        ("RunInstances", {"Amount.1": "1"}, {}, "Amount has no members"),
        ("RunInstances", {}, {"Instances": []}, "answer RunInstances.Instances is unknown"),
        ("DescribeScalingGroups", {"Group": "a"}, {}, "request DescribeScalingGroups.Group"),
    ],
)
def test_what_alibaba_refuses_or_never_answers_is_found(
    action: str, form: dict[str, str], body: dict[str, Any], problem: str
) -> None:
    request = Request("POST", "/", form, {"x-acs-action": action}, b"")
    (found,) = AlibabaModel().check(request, done(body))
    assert problem in found
