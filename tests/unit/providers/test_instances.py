"""What is the same for all who make machines: when to ask again, tokens, and who is asked."""

from datetime import timedelta

import pytest

from kubenode.providers.instances import (
    FIRST_WAIT,
    LONGEST_WAIT,
    NO_ROOM_WAIT,
    ErrorCode,
    InstanceError,
    On,
    client_token,
    machine_uid,
    next_try,
)

UID = "5c0e7f1a-1111-4222-8333-123456789abc"


@pytest.mark.parametrize("code", [ErrorCode.UNAVAILABLE, ErrorCode.ABORTED, ErrorCode.INTERNAL])
def test_what_passes_is_tried_after_5_s_doubling_to_300_s(code: ErrorCode) -> None:
    waits = [next_try(code, attempt).after for attempt in range(1, 10)]
    seconds = [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert waits == [timedelta(seconds=each) for each in seconds]
    assert next_try(code, 10_000).after == LONGEST_WAIT
    assert not next_try(code, 1).find_first


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN, ErrorCode.DEADLINE_EXCEEDED])
def test_what_may_have_taken_effect_is_looked_for_before_it_is_asked_again(code: ErrorCode) -> None:
    after = next_try(code, 1)
    assert (after.on, after.after, after.find_first) == (On.TIME, FIRST_WAIT, True)


def test_a_quota_is_asked_again_after_600_s_however_often() -> None:
    waits = {next_try(ErrorCode.RESOURCE_EXHAUSTED, attempt).after for attempt in range(1, 50)}
    assert waits == {NO_ROOM_WAIT}


@pytest.mark.parametrize("code", [ErrorCode.UNAUTHENTICATED, ErrorCode.PERMISSION_DENIED])
def test_without_the_right_credentials_are_waited_for(code: ErrorCode) -> None:
    assert next_try(code, 3).on is On.CREDENTIALS


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_ARGUMENT,
        ErrorCode.FAILED_PRECONDITION,
        ErrorCode.UNIMPLEMENTED,
        ErrorCode.NOT_FOUND,
        ErrorCode.ALREADY_EXISTS,
    ],
)
def test_what_no_try_can_help_is_final(code: ErrorCode) -> None:
    assert next_try(code, 1).on is On.NOTHING


@pytest.mark.parametrize("code", [each for each in ErrorCode if each is not ErrorCode.OK])
def test_it_is_never_sooner_than_the_provider_said(code: ErrorCode) -> None:
    told = timedelta(seconds=900)
    after = next_try(code, 1, told)
    assert after.on is not On.TIME or after.after == told


def test_a_token_names_its_machine_and_fits_every_provider() -> None:
    token = client_token(UID, 12)
    assert machine_uid(token) == UID
    assert len(client_token(UID, 10**9)) <= 64
    assert machine_uid("somebody-elses") == machine_uid("") == ""


def test_an_error_shows_provider_code_and_the_providers_words() -> None:
    error = InstanceError("aws-1", ErrorCode.RESOURCE_EXHAUSTED, "VcpuLimitExceeded: 32")
    assert str(error) == "aws-1: RESOURCE_EXHAUSTED: VcpuLimitExceeded: 32"
