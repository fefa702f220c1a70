"""Keys show themselves nowhere, and errors of foreign code are told without any."""

from __future__ import annotations

import copy
import html
import pickle
import re
from urllib.parse import unquote

import pytest
from growth import grows_linearly
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise._support.secret import Secret, told

KEY = "sk-planted-7f3Zq9LmX2"

ESCAPES = [
    str,
    lambda mark: f"\\u{ord(mark):04x}",
    lambda mark: f"\\u{ord(mark):04X}" if mark.isalpha() else mark,
    lambda mark: f"%{ord(mark):02X}",
    lambda mark: f"&#{ord(mark)};",
]
"""Ways in which a server may write a character."""


def decodings(text: str) -> str:
    """Return a text and all that comes of decoding it again and again, one below the other."""
    found = [text]
    for _ in range(6):
        text = html.unescape(unquote(text))
        found.append(text)
        text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), text)
        found.append(text)
        found.append(text.replace("\\/", "/").replace("\\\\", "\\"))
    return "\n".join(found)


class TestSecret:
    def test_shows_its_source_alone(self):
        secret = Secret(KEY, "MY_KEY")
        assert repr(secret) == str(secret) == f"{secret}" == "Secret(MY_KEY)"
        assert secret.reveal() == KEY

    def test_is_not_pickled_or_copied(self):
        for way in (pickle.dumps, copy.copy):
            with pytest.raises(TypeError, match="a key is not pickled"):
                way(Secret(KEY, "MY_KEY"))

    def test_hides_any_credential_of_a_header(self):
        secret = Secret(KEY, "MY_KEY")
        assert secret.hide(f"{KEY}, {KEY}") == "[key], [key]"
        assert secret.hide("authorization: bearer sk-somebody-else's") == "authorization: bearer [key]'s"
        assert secret.hide("nothing to hide") == "nothing to hide"

    @pytest.mark.parametrize(
        ("text", "hidden"),
        [
            (r"\u0073k-aB/9+xYz=~7 twice \u0073k-aB/9+xYz=~7", "[key] twice [key]"),
            (r"sk\u002DaB\/9\u002bxYz\u003D~7", "[key]"),
            (r"sk-aB\\\/9+xYz=~7", "[key]"),
            (r"\\u0073k-aB/9+xYz=~7", "[key]"),
            ("sk-aB%2F9%2bxYz%3D~7", "[key]"),
            ("sk-aB%252F9%25252bxYz%3D~7", "[key]"),
            (r"\x73k-aB/9+xYz=~7", "[key]"),
            ("&#115;k-aB&#x2F;9&#043;xYz&amp;#61;~7", "[key]"),
            (r"\u0073k-aB%2F9&#x2b;xYz=~7", "[key]"),
            (r"in two layers: sk-aB\u00252F9+xYz=~7", "[key]"),
            (r'{"a": "\u0073k-aB\/9\u002bxYz=~7\n"}', r'{"a": "[key]\n"}'),
            (r"no key: \u0073k-aB%2F and 100 % \ of & it", r"no key: \u0073k-aB%2F and 100 % \ of & it"),
        ],
    )
    def test_hides_the_key_however_it_is_escaped(self, text, hidden):
        assert Secret("sk-aB/9+xYz=~7", "MY_KEY").hide(text) == hidden

    @settings(max_examples=30, deadline=None)
    @given(st.randoms(use_true_random=False), st.integers(0, 2))
    def test_leaves_nothing_that_decodes_to_the_key(self, random, layers):
        key = "sk-aB/9+xYz=~7"
        text = f"say {key} again"
        for _ in range(layers):
            text = "".join(random.choice(ESCAPES)(mark) for mark in text)
        hidden = Secret(key, "MY_KEY").hide(text)
        assert key not in decodings(hidden)
        assert "[key]" in hidden

    @pytest.mark.parametrize("text", ["\\" * 100_000, "%25" * 5_000, "&amp;" * 5_000, r"\u0073" * 5_000])
    def test_is_not_held_up_by_escapes(self, text):
        assert Secret("sk-12345678", "MY_KEY").hide(text) == text

    @pytest.mark.parametrize(
        "unit",
        [
            "\\",
            "%",
            "%25",
            "&amp;",
            "&#0000",
            r"\u0073",
            "Bearer ",
            "Bearer" + " " * 50,
            "%73k-12345678",
            "\ud800",
        ],
    )
    def test_hides_in_linear_time(self, unit):
        assert grows_linearly(Secret("sk-12345678", "MY_KEY").hide, unit, most=100_000)

    def test_a_key_of_backslashes_is_looked_for_in_linear_time(self):
        secret = Secret("\\" * 10 + "sk-1", "MY_KEY")
        assert grows_linearly(lambda text: secret.hide("sk-1" + text), "\\")

    def test_a_key_of_a_thousand_characters_is_found_escaped(self):
        key = "".join(f"{number:x}-" for number in range(200))
        escaped = "".join(rf"\u{ord(mark):04x}" for mark in key)
        assert Secret(key, "MY_KEY").hide(f"you sent {escaped}!") == "you sent [key]!"

    def test_a_placeholder_is_no_secret(self):
        assert Secret("none", "MY_KEY").hide("none of it") == "none of it"


class TestToldErrors:
    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("401 for 'Authorization: Bearer abcdefgh'", "401 for 'Authorization: Bearer [key]'"),
            ("can't reach https://me:pass@host/v1", "can't reach https://[key]@host/v1"),
            ("GET /v1?api_key=a1b2c3&model=x failed", "GET /v1?api_key=[key]&model=x failed"),
            ('{"token": "a1b2c3", "n": 1}', '{"token": "[key]", "n": 1}'),
            ("Incorrect API key provided: sk-proj-abcdefghijkl", "Incorrect API key provided: sk-[key]"),
            ("the secret of mine is in-the-environment!", "the secret of mine is [key]!"),
            ("unexpected token: comma", "unexpected token: comma"),
            ("no such key: reciprocity", "no such key: reciprocity"),
            ("two\n\x1b[2Jlines", r"two \x1b[2Jlines"),
            ("", ""),
        ],
    )
    def test_have_no_credentials_and_one_visible_line(self, text, line):
        environ = {"MY_SERVICE_KEY": "in-the-environment", "TOKEN": "1", "HOME": "unexpected"}
        assert told(ValueError(text), environ) == f"ValueError: {line}"

    def test_are_short_and_cut_only_after_secrets_are_hidden(self):
        environ = {"MY_KEY": KEY}
        assert told(ValueError("z" * 290 + " " + KEY), environ).endswith("z [key]")
        assert told(ValueError("z" * 400), environ) == f"ValueError: {'z' * 300}…"
        for length in range(99_970, 100_001):
            assert "planted" not in told(ValueError(" " * length + KEY), environ)

    def test_may_raise_themselves(self):
        class BrokenError(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no text")

        assert told(BrokenError()) == "BrokenError: "

    @pytest.mark.parametrize("unit", ["token", "://a", "Bearer ", "api_key=", "sk-", "password1"])
    def test_are_read_in_linear_time(self, unit):
        assert grows_linearly(lambda text: told(ValueError(text), {}), unit, most=90_000)
