"""Where the network is run: what is there is used, what is not is told, and nothing falls back in silence."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest

from turnwise.conversation import Side
from turnwise.errors import ObserverError, UsageError
from turnwise.observers import (
    Context,
    LocalObserver,
    Request,
    build_observer,
    observe_conversations,
    observer_settings,
)
from turnwise.observers.conformance import conversations
from turnwise.observers.local import network
from turnwise.principles import builtin_principles

GPUS = [
    name
    for name, provider in network.DEVICES.items()
    if name not in {"cpu", "openvino"} and provider in onnxruntime.get_available_providers()
]


def test_device_is_a_setting_of_both_embedded_observers() -> None:
    assert (
        observer_settings("local")["device"].default == observer_settings("local-small")["device"].default == "cpu"
    )


def test_an_unknown_device_is_told_with_the_known_ones(weights_folder: Path) -> None:
    with pytest.raises(UsageError, match=r"one of cpu, cuda, .* not 'gpu'"):
        LocalObserver(str(weights_folder), device="gpu")


def test_a_device_that_onnxruntime_lacks_is_told_with_what_to_install(
    weights_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network.onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(ObserverError, match=r"runs on cpu only; install .*onnxruntime-gpu for cuda"):
        LocalObserver(str(weights_folder), device="cuda")
    with pytest.raises(ObserverError, match="runs on cpu only"):
        build_observer("local-small", device="cuda")


def test_a_device_that_onnxruntime_has_but_can_t_start_is_told(
    weights_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = onnxruntime.InferenceSession

    def without_driver(model, options, providers):
        return session(model, options, providers=providers[-1:])

    monkeypatch.setattr(network.onnxruntime, "get_available_providers", lambda: list(network.DEVICES.values()))
    monkeypatch.setattr(network.onnxruntime, "InferenceSession", without_driver)
    with pytest.raises(ObserverError, match=r"could not start it .*would run on the processor"):
        LocalObserver(str(weights_folder), device="cuda")


@pytest.mark.skipif(not GPUS, reason="the installed onnxruntime has no provider but the processor's")
@pytest.mark.parametrize("device", GPUS or ["none"])
def test_scores_are_those_of_the_processor(device: str) -> None:
    talks = [turns for _, turns in conversations()]
    wanted = [Request(principle, side) for side in Side for principle in builtin_principles()]
    history = Context.parse("history")
    there = observe_conversations(build_observer("local", device=device), talks, history, wanted)
    here = observe_conversations(build_observer("local"), talks, history, wanted)
    assert abs(there.scores - here.scores).max() <= 1e-3
