"""onnxruntime, told before it is loaded to report nothing to anybody.

Its wheels (from 1.32 on, and earlier ones on Windows) report the process, its models and a lasting id of the
device to their maker unless they are told not to. The variables of the environment count when the library is
loaded, the call where somebody else loaded it before.
"""

from __future__ import annotations

import os

for _name in ("ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED"):
    os.environ[_name] = "1"

import onnxruntime  # noqa: E402 - the variables come first

onnxruntime.disable_telemetry_events()

__all__ = ["onnxruntime"]
