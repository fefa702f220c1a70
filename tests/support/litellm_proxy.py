"""A real proxy of LiteLLM in a process of its own, from a virtual environment of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from served import until

PYTHON = "TURNWISE_LITELLM_PYTHON"
"""Environment variable with the interpreter that has LiteLLM."""

_HINT = (
    f"the tests of LiteLLM need it, and turnwise, in a virtual environment of their own, and {PYTHON} to name its "
    "interpreter: python -m venv litellm && litellm/bin/pip install 'litellm[proxy]' . && "
    f"export {PYTHON}=$PWD/litellm/bin/python"
)


def interpreter() -> str:
    """Return the interpreter that has LiteLLM; without one the test fails and says what to do."""
    python = os.environ.get(PYTHON)
    if not python or not Path(python).is_file():
        pytest.fail(_HINT)
    return python


@contextmanager
def litellm_proxy(config: Path) -> Iterator[str]:
    """Run the proxy with a configuration, which names modules beside it; give its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [interpreter(), "-c", "from litellm import run_server; run_server()"]
    command += ["--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    log: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda: log.extend(process.stdout or ()), daemon=True)
    reader.start()

    def ready() -> bool:
        assert process.poll() is None, "".join(log)[-4_000:]
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/health/liveliness")
            return connection.getresponse().status == 200
        finally:
            connection.close()

    try:
        until(ready, 180.0)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(10)
        process.stdout.close()
