"""What the tests of training share."""

from __future__ import annotations

import pytest
from tests.observers.local.conftest import tokenizer_text
from tokenizers import Tokenizer

from turnwise.observers.local.reading import Speech
from turnwise.observers.local.weights import Reach


@pytest.fixture(scope="session")
def speech() -> Speech:
    return Speech(Tokenizer.from_str(tokenizer_text()), Reach())
