"""Every number of the specification is shown by a test or a benchmark, and nothing else claims one."""

from __future__ import annotations

import pytest
from documentation.specification import parts, shown

REQUIREMENTS = [one for _, requirements in parts() for one in requirements]
SHOWN = shown()


@pytest.mark.parametrize("number", [one.id for one in REQUIREMENTS])
def test_it_is_shown(number):
    assert [one for one in SHOWN if one.id == number], f'mark a test with @pytest.mark.shows("{number}")'


def test_every_mark_has_its_number_in_the_specification():
    known = {one.id for one in REQUIREMENTS}
    assert [str(one) for one in SHOWN if one.id not in known] == []


def test_numbers_are_complete_and_come_once():
    numbers = [one.id for one in REQUIREMENTS]
    assert len(numbers) == len(set(numbers))
    assert [number for number in numbers if number.startswith("FR-")] == [f"FR-{k:03}" for k in range(1, 13)]
    assert [number for number in numbers if number.startswith("SC-")] == [f"SC-{k:03}" for k in range(1, 9)]
