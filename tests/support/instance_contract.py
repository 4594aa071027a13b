"""What every provider that makes machines must do: one suite for all, no test leaves one behind.

A test module makes a subclass with a fixture `world` that yields its InstanceWorld:

    class TestMine(InstanceContract):
        @pytest.fixture
        def world(self) -> Iterator[InstanceWorld]: ...
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Protocol

import pytest

from kubenode.api.v1alpha1.machinework import MachineOperationType
from kubenode.providers.instances import (
    CLUSTER_TAG,
    MACHINE_TAG,
    TOKEN_TAG,
    Deletion,
    ErrorCode,
    Instance,
    InstanceError,
    InstanceOrder,
    Instances,
    InstanceState,
    client_token,
)

WITHIN = 60.0
"""Seconds in which any answer must be there, also that there is none."""
CLUSTER, ANOTHER = "shop", "another"
UID = "5c0e7f1a-1111-4222-8333-{:012d}"
USER_DATA = "#!/bin/sh\necho 'ünïcode' > /etc/joined\n"
SECRET_OF_HOST = "abc123.0123456789abcdef"


class Trouble(StrEnum):
    THROTTLED = "Throttled"
    DENIED = "Denied"
    NO_ROOM = "NoRoom"
    """A quota, or no capacity. Only what makes a machine meets it."""
    BUSY = "Busy"
    BROKEN = "Broken"
    """The provider answers that something went wrong on its side."""
    REFUSED_CONNECTION = "RefusedConnection"
    SILENT = "Silent"
    """The request arrives, and no answer comes."""


MEANING: Mapping[Trouble, tuple[frozenset[ErrorCode], frozenset[ErrorCode]]] = {
    Trouble.THROTTLED: (frozenset({ErrorCode.UNAVAILABLE}), frozenset({ErrorCode.UNAVAILABLE})),
    Trouble.DENIED: (
        frozenset({ErrorCode.PERMISSION_DENIED, ErrorCode.UNAUTHENTICATED}),
        frozenset({ErrorCode.PERMISSION_DENIED, ErrorCode.UNAUTHENTICATED}),
    ),
    Trouble.BUSY: (frozenset({ErrorCode.ABORTED}), frozenset({ErrorCode.ABORTED})),
    Trouble.BROKEN: (
        frozenset({ErrorCode.UNAVAILABLE, ErrorCode.INTERNAL, ErrorCode.UNKNOWN}),
        frozenset({ErrorCode.UNKNOWN}),
    ),
    Trouble.REFUSED_CONNECTION: (
        frozenset({ErrorCode.UNAVAILABLE, ErrorCode.UNKNOWN}),
        frozenset({ErrorCode.UNKNOWN}),
    ),
}
"""Codes of what only looks, and of what makes a machine."""


class InstanceWorld(Protocol):
    """A provider over machines that the test can look at.

    config    that it takes
    missing   a provider ID of its own form that nobody has
    foreign   a provider ID of another provider, region or account
    stranger  a running machine at the same provider that we did not make
    troubles  those that `begin` can make
    secrets   texts that must never be told
    page      how many machines a page of its lists has, 0: it has no pages
    """

    instances: Instances
    config: dict[str, Any]
    bad_config: dict[str, Any]
    missing: str
    foreign: str
    stranger: str
    troubles: frozenset[Trouble]
    secrets: tuple[str, ...]
    page: int

    def alive(self) -> set[str]:
        """Provider IDs of all that runs or is kept there, and disks and cards without one."""
        ...

    def user_data(self, provider_id: str) -> str:
        """What the machine's host was given."""
        ...

    async def settle(self) -> None:
        """Let everything that was asked come about."""
        ...

    def lose_the_answer(self) -> None:
        """The next creation takes effect, and its answer is lost."""
        ...

    def hide_the_newest(self) -> None:
        """From now on what was made is not seen by its tags: a cloud's lists lag behind."""
        ...

    def begin(self, trouble: Trouble) -> None:
        """From now on `instances` meets it. It may be another object then."""
        ...

    def calm(self) -> None:
        """The end of all troubles."""
        ...

    def fresh(self) -> Instances:
        """One more over the same machines, which the test closes."""
        ...


def an_order(
    world: InstanceWorld, number: int = 1, attempt: int = 1, **change: Any
) -> InstanceOrder:
    order = InstanceOrder(
        token=client_token(UID.format(number), attempt),
        cluster=CLUSTER,
        machine=f"machine-{number}",
        name=f"w{number}",
        config=world.config,
        user_data=USER_DATA,
    )
    return replace(order, **change)


class InstanceContract:
    @pytest.fixture(autouse=True)
    async def _nothing_is_left(self, world: InstanceWorld) -> AsyncIterator[None]:
        """Whatever a test made is found by its tags, ends, and leaves nothing that costs."""
        before = world.alive()
        yield
        world.calm()
        await world.settle()
        made = [one for cluster in (CLUSTER, ANOTHER) for one in await listed(world, cluster)]
        assert {one.provider_id for one in made} == world.alive() - before, "lost from sight"
        for one in made:
            await ended(world, one.provider_id, one.cluster)
        assert world.alive() == before, "left behind"

    async def test_what_is_made_is_found_by_token_by_id_and_in_the_list(
        self, world: InstanceWorld
    ) -> None:
        order = an_order(world)
        assert await world.instances.find(CLUSTER, order.token) is None
        made = await world.instances.create(order)
        assert (made.token, made.cluster) == (order.token, CLUSTER)
        assert made.state in (InstanceState.PENDING, InstanceState.RUNNING)
        assert world.instances.owns(made.provider_id)
        await world.settle()
        seen = [
            await world.instances.get(made.provider_id),
            await world.instances.find(CLUSTER, order.token),
            *await world.instances.list(CLUSTER),
        ]
        assert len(seen) == 3
        for one in seen:
            assert one is not None
            assert (one.provider_id, one.token) == (made.provider_id, order.token)
            assert one.created_at is not None and one.created_at.tzinfo is not None
        assert seen[0] is not None and seen[0].state is InstanceState.RUNNING

    async def test_the_host_is_given_its_user_data_byte_for_byte(
        self, world: InstanceWorld
    ) -> None:
        made = await world.instances.create(an_order(world))
        assert world.user_data(made.provider_id) == USER_DATA

    async def test_our_tags_say_whose_it_is(self, world: InstanceWorld) -> None:
        order = an_order(world)
        made = await world.instances.create(order)
        await world.settle()
        (found,) = await world.instances.list(CLUSTER)
        assert found.provider_id == made.provider_id
        ours = {CLUSTER_TAG: CLUSTER, TOKEN_TAG: order.token, MACHINE_TAG: "machine-1"}
        assert ours == order.tags and ours.items() <= found.tags.items()

    async def test_equal_tokens_are_one_machine(self, world: InstanceWorld) -> None:
        before = world.alive()
        order = an_order(world)
        made = {(await world.instances.create(order)).provider_id for _ in range(3)}
        await world.settle()
        made.add((await world.instances.create(order)).provider_id)
        assert made == world.alive() - before and len(made) == 1

    async def test_equal_tokens_asked_at_once_are_one_machine(self, world: InstanceWorld) -> None:
        before = world.alive()
        order = an_order(world)
        asked = [world.instances.create(order) for _ in range(4)]
        told = await asyncio.gather(*asked, return_exceptions=True)
        errors = [one for one in told if not isinstance(one, Instance)]
        assert all(isinstance(e, InstanceError) and e.code is ErrorCode.ABORTED for e in errors)
        assert len(world.alive() - before) == 1

    async def test_different_tokens_are_different_machines(self, world: InstanceWorld) -> None:
        first = await world.instances.create(an_order(world, 1))
        second = await world.instances.create(an_order(world, 2))
        assert first.provider_id != second.provider_id
        assert len(await listed(world, CLUSTER)) == 2

    async def test_a_lost_answer_is_found_again_and_not_made_twice(
        self, world: InstanceWorld
    ) -> None:
        before = world.alive()
        order = an_order(world)
        world.lose_the_answer()
        with pytest.raises(InstanceError) as told:
            await world.instances.create(order)
        assert told.value.code is ErrorCode.UNKNOWN
        found = await world.instances.find(CLUSTER, order.token)
        made = await world.instances.create(order)
        assert found is not None and found.provider_id == made.provider_id
        assert world.alive() - before == {made.provider_id}

    async def test_a_machine_that_lists_do_not_show_yet_is_not_made_twice(
        self, world: InstanceWorld
    ) -> None:
        before = world.alive()
        order = an_order(world)
        world.lose_the_answer()
        with pytest.raises(InstanceError):
            await world.instances.create(order)
        world.hide_the_newest()
        made = await world.instances.create(order)
        assert world.alive() - before == {made.provider_id}

    async def test_other_words_with_the_same_token_make_no_second(
        self, world: InstanceWorld
    ) -> None:
        before = world.alive()
        order = an_order(world)
        made = await world.instances.create(order)
        again = await world.instances.create(replace(order, user_data="#!/bin/sh\nfalse\n"))
        assert again.provider_id == made.provider_id
        world.hide_the_newest()
        try:
            await world.instances.create(replace(order, user_data="#!/bin/sh\ntrue\n"))
        except InstanceError as error:
            assert error.code is ErrorCode.ABORTED
        assert world.alive() - before == {made.provider_id}

    async def test_a_machine_ends_when_asked_until_it_is_gone(self, world: InstanceWorld) -> None:
        order = an_order(world)
        made = await world.instances.create(order)
        await world.settle()
        assert await world.instances.delete(made.provider_id, CLUSTER) in Deletion
        assert await ended(world, made.provider_id, CLUSTER) is Deletion.GONE
        assert await world.instances.get(made.provider_id) is None
        assert await world.instances.find(CLUSTER, order.token) is None
        assert await world.instances.list(CLUSTER) == []
        assert await world.instances.delete(made.provider_id, CLUSTER) is Deletion.GONE

    async def test_a_machine_that_has_just_been_asked_for_can_be_ended(
        self, world: InstanceWorld
    ) -> None:
        before = world.alive()
        made = await world.instances.create(an_order(world))
        await ended(world, made.provider_id, CLUSTER)
        assert world.alive() == before

    async def test_the_next_attempt_is_another_machine(self, world: InstanceWorld) -> None:
        first = await world.instances.create(an_order(world))
        await ended(world, first.provider_id, CLUSTER)
        order = an_order(world, attempt=2)
        assert await world.instances.find(CLUSTER, order.token) is None
        second = await world.instances.create(order)
        found = await world.instances.get(second.provider_id)
        assert found is not None and found.token == order.token

    async def test_a_token_whose_machine_has_ended_makes_at_most_one(
        self, world: InstanceWorld
    ) -> None:
        before = world.alive()
        order = an_order(world)
        made = await world.instances.create(order)
        await ended(world, made.provider_id, CLUSTER)
        try:
            await world.instances.create(order)
        except InstanceError as error:
            assert error.code is ErrorCode.FAILED_PRECONDITION
        assert len(world.alive() - before) <= 1

    async def test_a_machine_of_another_cluster_is_neither_shown_nor_ended(
        self, world: InstanceWorld
    ) -> None:
        made = await world.instances.create(an_order(world, cluster=ANOTHER))
        await world.settle()
        assert await world.instances.list(CLUSTER) == []
        assert await world.instances.find(CLUSTER, made.token) is None
        with pytest.raises(InstanceError) as told:
            await world.instances.delete(made.provider_id, CLUSTER)
        assert told.value.code is ErrorCode.FAILED_PRECONDITION
        assert made.provider_id in world.alive()

    async def test_a_machine_that_we_did_not_make_is_neither_shown_nor_ended(
        self, world: InstanceWorld
    ) -> None:
        for cluster in (CLUSTER, ""):
            with pytest.raises(InstanceError):
                await world.instances.delete(world.stranger, cluster or CLUSTER)
        assert world.stranger in world.alive()
        assert await world.instances.list(CLUSTER) == []

    async def test_a_machine_that_nobody_has_is_absent_and_gone(self, world: InstanceWorld) -> None:
        assert world.instances.owns(world.missing)
        assert await world.instances.get(world.missing) is None
        assert await world.instances.delete(world.missing, CLUSTER) is Deletion.GONE

    @pytest.mark.parametrize("provider_id", ["", "x", None])
    async def test_an_id_of_another_place_is_not_asked_for(
        self, world: InstanceWorld, provider_id: str | None
    ) -> None:
        wrong = world.foreign if provider_id is None else provider_id
        assert not world.instances.owns(wrong)
        for ask in (world.instances.get(wrong), world.instances.delete(wrong, CLUSTER)):
            with pytest.raises(InstanceError) as told:
                await ask
            assert told.value.code is ErrorCode.INVALID_ARGUMENT

    async def test_a_list_has_all_pages(self, world: InstanceWorld) -> None:
        count = world.page + 1 if world.page else 3
        orders = [an_order(world, number) for number in range(count)]
        made = [await world.instances.create(order) for order in orders]
        found = await listed(world, CLUSTER)
        assert sorted(one.provider_id for one in found) == sorted(m.provider_id for m in made)
        last = await world.instances.find(CLUSTER, orders[-1].token)
        assert last is not None and last.provider_id == made[-1].provider_id

    async def test_a_config_that_it_does_not_know_makes_nothing(self, world: InstanceWorld) -> None:
        before = world.alive()
        assert world.instances.validate(world.config) == []
        wrong = world.instances.validate(world.bad_config)
        assert wrong and all(": " in line for line in wrong)
        with pytest.raises(InstanceError) as told:
            await world.instances.create(an_order(world, config=world.bad_config))
        assert told.value.code is ErrorCode.INVALID_ARGUMENT
        assert world.alive() == before

    @pytest.mark.parametrize("operation", list(MachineOperationType))
    async def test_what_it_cannot_do_it_says_beforehand(
        self, world: InstanceWorld, operation: MachineOperationType
    ) -> None:
        made = await world.instances.create(an_order(world))
        await world.settle()
        ask = world.instances.operate(made.provider_id, CLUSTER, operation, "job-1")
        if operation in world.instances.operations:
            await ask
        else:
            with pytest.raises(InstanceError) as told:
                await ask
            assert told.value.code is ErrorCode.UNIMPLEMENTED

    @pytest.mark.parametrize("trouble", [t for t in Trouble if t is not Trouble.SILENT])
    async def test_every_trouble_is_told_by_its_code(
        self, world: InstanceWorld, trouble: Trouble
    ) -> None:
        if trouble not in world.troubles:
            pytest.skip(f"this provider does not meet {trouble}")
        order = an_order(world, user_data=f"#!/bin/sh\n# {SECRET_OF_HOST}\n")
        world.begin(trouble)
        async with asyncio.timeout(WITHIN):
            with pytest.raises(InstanceError) as made:
                await world.instances.create(order)
            if trouble is Trouble.NO_ROOM:
                assert made.value.code is ErrorCode.RESOURCE_EXHAUSTED
            else:
                with pytest.raises(InstanceError) as looked:
                    await world.instances.list(CLUSTER)
                looking, making = MEANING[trouble]
                assert looked.value.code in looking
                assert made.value.code in making | looking
        text = str(made.value)
        assert text.startswith(f"{world.instances.name}: {made.value.code}: ")
        assert made.value.message and "\n" not in text
        for secret in (*world.secrets, SECRET_OF_HOST):
            assert secret not in text

    async def test_who_may_not_look_finds_nothing_absent(self, world: InstanceWorld) -> None:
        if Trouble.DENIED not in world.troubles:
            pytest.skip("this provider denies nobody")
        made = await world.instances.create(an_order(world))
        world.begin(Trouble.DENIED)
        for ask in (
            world.instances.get(made.provider_id),
            world.instances.find(CLUSTER, made.token),
            world.instances.list(CLUSTER),
            world.instances.delete(made.provider_id, CLUSTER),
        ):
            with pytest.raises(InstanceError) as told:
                await ask
            assert told.value.code in (ErrorCode.PERMISSION_DENIED, ErrorCode.UNAUTHENTICATED)
        assert made.provider_id in world.alive()

    async def test_f28_a_provider_that_is_broken_is_asked_again_until_it_is_gone(
        self, world: InstanceWorld
    ) -> None:
        made = await world.instances.create(an_order(world))
        await world.settle()
        world.begin(Trouble.BROKEN)
        for _ in range(3):
            with pytest.raises(InstanceError) as told:
                await world.instances.delete(made.provider_id, CLUSTER)
            assert told.value.code in (ErrorCode.UNKNOWN, ErrorCode.UNAVAILABLE, ErrorCode.INTERNAL)
        world.calm()
        assert await ended(world, made.provider_id, CLUSTER) is Deletion.GONE

    async def test_a_slow_answer_holds_nobody_else_up(self, world: InstanceWorld) -> None:
        if Trouble.SILENT not in world.troubles:
            pytest.skip("this provider always answers")
        world.begin(Trouble.SILENT)
        waiting = asyncio.ensure_future(world.instances.list(CLUSTER))
        turns = 0
        async with asyncio.timeout(WITHIN):
            while not waiting.done():
                await asyncio.sleep(0.01)
                turns += 1
        error = waiting.exception()
        assert isinstance(error, InstanceError)
        assert error.code in (ErrorCode.UNAVAILABLE, ErrorCode.UNKNOWN)
        assert turns > 5

    async def test_a_closed_provider_leaves_no_thread_behind(self, world: InstanceWorld) -> None:
        before = set(threading.enumerate())
        instances = world.fresh()
        await instances.list(CLUSTER)
        await instances.close()
        after = set(threading.enumerate()) - before
        assert not [t.name for t in after if t.name.startswith(instances.provider)]


async def listed(world: InstanceWorld, cluster: str) -> list[Instance]:
    return list(await world.instances.list(cluster))


async def ended(world: InstanceWorld, provider_id: str, cluster: str) -> Deletion:
    """Asked until it is gone, as the finalizer does."""
    end = asyncio.get_running_loop().time() + WITHIN
    while asyncio.get_running_loop().time() < end:
        try:
            if (said := await world.instances.delete(provider_id, cluster)) is Deletion.GONE:
                return said
        except InstanceError as error:
            assert error.code is ErrorCode.ABORTED, error
        await world.settle()
    raise AssertionError(f"{provider_id} does not end")
