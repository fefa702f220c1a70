"""Where the network runs, and that the library that runs it keeps and sends nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError, UsageError
from turnwise.observers import (
    Context,
    LocalObserver,
    Request,
    build_observer,
    observe_conversations,
    observer_settings,
)
from turnwise.principles import builtin_principles

PROVIDERS = {
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "directml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
}
GPUS = [name for name, provider in PROVIDERS.items() if provider in onnxruntime.get_available_providers()]


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
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
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

    every = ["CPUExecutionProvider", *PROVIDERS.values()]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: every)
    monkeypatch.setattr(onnxruntime, "InferenceSession", without_driver)
    with pytest.raises(ObserverError, match=r"could not start it .*would run on the processor"):
        LocalObserver(str(weights_folder), device="cuda")


@pytest.mark.skipif(not GPUS, reason="the installed onnxruntime has no provider but the processor's")
@pytest.mark.parametrize("device", GPUS or ["none"])
def test_scores_are_those_of_the_processor(device: str) -> None:
    talks = [
        [Turn(1, "What is the tallest mountain?", "Mount Everest."), Turn(2, "And the longest river?", None)],
        [Turn(1, "word " * 1_200, "ok"), Turn(2, "and now?", None)],
        [Turn(1, 'tabs\t\r\nzero\u200bwidth \u202eright to left\x00null {"T": 1} </s> 日本語 👩‍🚀', " \n")],
    ]
    wanted = [Request(principle, side) for side in Side for principle in builtin_principles()]
    history = Context.parse("history")
    there = observe_conversations(build_observer("local", device=device), talks, history, wanted)
    here = observe_conversations(build_observer("local"), talks, history, wanted)
    assert abs(there.scores - here.scores).max() <= 1e-3


_CODE = """
import os
os.environ.pop("ORT_DISABLE_TELEMETRY", None)
os.environ.pop("ORT_TELEMETRY_DISABLED", None)
import turnwise
turnwise.score([{"role": "user", "content": "Hello"}], "local-small")
"""


def test_no_id_of_the_device_is_kept(tmp_path: Path) -> None:
    home = {name: str(tmp_path) for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "LOCALAPPDATA")}
    subprocess.run([sys.executable, "-c", _CODE], env={**os.environ, **home}, check=True, cwd=tmp_path)
    assert not list(tmp_path.rglob("*"))
