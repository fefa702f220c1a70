"""The course of a check, and the two drivers that take it: one that runs guardrails, one that awaits them."""

from __future__ import annotations

from collections.abc import Generator

from turnwise.guard.guardrail import Check
from turnwise.guard.records import Detail
from turnwise.guard.result import PipelineResult
from turnwise.guard.step import Step

Course = Generator[tuple[Step, Check], Detail, PipelineResult]
"""A check under way: yields what is to be run, takes what it said, and returns the result."""


def run(course: Course) -> PipelineResult:
    """Take a check to its end in this thread, and return the result."""
    try:
        step, check = next(course)
        while True:
            step, check = course.send(step.run(check))
    except StopIteration as end:
        result: PipelineResult = end.value
        return result
    finally:
        course.close()


async def arun(course: Course) -> PipelineResult:
    """Take a check to its end without blocking the event loop, and return the result."""
    try:
        step, check = next(course)
        while True:
            step, check = course.send(await step.arun(check))
    except StopIteration as end:
        result: PipelineResult = end.value
        return result
    finally:
        course.close()
