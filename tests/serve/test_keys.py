"""API keys: where they come from, and what they open."""

import pytest

from turnwise.errors import UsageError
from turnwise.serve import ApiKeys

KEY, OTHER = "0123456789abcdef", "fedcba9876543210"


def test_keys_come_from_a_file_and_from_the_environment(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"# of the web shop\nweb:{KEY}\n\n")
    keys = ApiKeys.read(str(file), {"TURNWISE_API_KEYS": f"desk:{OTHER}"})
    assert keys.names == ("desk", "web")
    assert keys.name_of(KEY) == "web" and keys.name_of(OTHER) == "desk"
    assert keys.name_of("") is keys.name_of(KEY[:-1]) is keys.name_of(KEY + "0") is keys.name_of("ü" * 16) is None
    assert ApiKeys.read(None, {}) is None


@pytest.mark.parametrize("entry", ["short", "a b" * 10, "é" * 20, f"two words:{KEY}", "name:"])
def test_a_key_that_can_be_guessed_or_sent_wrongly_is_refused_without_showing_it(entry):
    with pytest.raises(UsageError, match="API key 1") as error:
        ApiKeys([entry])
    assert entry not in str(error.value)


def test_a_file_without_keys_is_an_error_and_not_an_open_door(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# none yet\n")
    with pytest.raises(UsageError, match="no API key"):
        ApiKeys.read(str(file), {})
    with pytest.raises(UsageError, match="can't be read"):
        ApiKeys.read(str(tmp_path / "missing"), {})


def test_keys_are_not_shown():
    assert KEY not in repr(ApiKeys([f"web:{KEY}"]))
