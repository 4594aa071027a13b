"""The fuzz targets of objects, reviews and files for a moment, and that their seeds get far."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import pytest
from fuzz.mutants import MOST_BYTES, mutants
from fuzz.object_targets import TARGETS

MOMENT = 300
"""Mutants of each target; `python -m fuzz.mutating` runs them for as long as it is told to."""


@contextmanager
def entered() -> Iterator[set[CodeType]]:
    """The functions that are called within."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            found.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_seeds_reach_behind_the_first_check(name: str) -> None:
    target = TARGETS[name]
    with entered() as called:
        for seed in target.seeds:
            target.feed(seed)
    missed = [
        function.__qualname__ for function in target.reaches if function.__code__ not in called
    ]
    assert missed == []


@pytest.mark.parametrize("name", sorted(TARGETS))
@pytest.mark.exhaustive
def test_changed_messages_are_read_or_refused(name: str) -> None:
    target = TARGETS[name]
    for data in islice(mutants(target.seeds, random.Random(1)), MOMENT):
        target.feed(data)


def test_mutants_are_bounded_and_the_same_for_the_same_chance() -> None:
    seeds = TARGETS["node_object"].seeds
    first = list(islice(mutants(seeds, random.Random(7)), 500))
    assert first == list(islice(mutants(seeds, random.Random(7)), 500))
    assert all(len(data) <= MOST_BYTES for data in first)
    assert len(set(first)) > 450
