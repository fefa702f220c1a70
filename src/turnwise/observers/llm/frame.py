"""The frame of a request: a versioned text that stands around the principle and the quoted turns."""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class Frame:
    """The texts of ``frame.toml``.

    Args:
        version: changes with any word of it.
        sha256: hash of the file.
        texts: the texts, by name.
    """

    version: str
    sha256: str
    texts: Mapping[str, Any]

    @property
    def revision(self) -> str:
        """The version and the first digits of the hash: what the provenance of a score names."""
        return f"{self.version}+{self.sha256[:12]}"

    def fill(self, name: str, part: str | None = None, /, **values: object) -> str:
        """Return a text with its names filled in; what is filled in is not looked at again."""
        text = self.texts[name] if part is None else self.texts[name][part]
        return str(text).format(**values).strip()


@functools.cache
def load_frame() -> Frame:
    """Return the frame that ships with turnwise."""
    content = resources.files("turnwise.observers.llm").joinpath("frame.toml").read_bytes().replace(b"\r\n", b"\n")
    texts = tomllib.loads(content.decode())
    return Frame(texts.pop("version"), hashlib.sha256(content).hexdigest(), texts)
