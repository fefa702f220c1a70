"""The library that runs the network keeps and sends nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
