"""Keys of the usual providers are found and cut out; names, words and examples that are no keys stay."""

from __future__ import annotations

import base64
import json
import random
import string

import pytest

from turnwise.errors import GuardError, UnknownNameError
from turnwise.guard import GUARDRAILS, build_guardrail, finding_of

SECRETS = build_guardrail("secrets")
_SOURCE = random.Random(7)
ALNUM = string.ascii_letters + string.digits


def some(count: int, alphabet: str = ALNUM) -> str:
    """Return characters at random, a digit among them; built here so that no scanner takes them for a leak."""
    return "".join(_SOURCE.choices(alphabet, k=count - 2)) + "a7"


HEX = string.hexdigits[:16]
UPPER = string.ascii_uppercase + "234567"


def jwt() -> str:
    parts = [json.dumps({"alg": "HS256", "typ": "JWT"}), json.dumps({"sub": "1234567890", "iat": 1})]
    head, body = (base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    return f"{head}.{body}.{some(43)}"


KEYS = [
    ("aws", "AKIA" + "QZ7XW2PLM4NB6VCK"),
    ("aws", "aws_secret_access_key = " + some(40)),
    ("azure", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=" + some(86) + "=="),
    ("azure", "a1b" + "8Q~" + some(34)),
    ("google_cloud", "AI" + "za" + some(35)),
    ("google_cloud", "GOC" + "SPX-" + some(28)),
    ("github", "gh" + "p_" + some(36)),
    ("github", "github" + "_pat_" + some(22) + "_" + some(59)),
    ("gitlab", "gl" + "pat-" + some(20)),
    ("slack", "xo" + "xb-" + "123456789012-" + some(24)),
    ("slack", "https://hooks.slack" + ".com/services/T0000/B0000/" + some(24)),
    ("discord", "https://discord" + ".com/api/webhooks/123456789012345678/" + some(66)),
    ("telegram", "123456789" + ":AA" + some(33)),
    ("stripe", "sk_" + "live_" + some(24)),
    ("stripe", "wh" + "sec_" + some(32)),
    ("shopify", "shp" + "at_" + some(32, HEX)),
    ("openai", "sk-" + some(48)),
    ("openai", "sk-" + "proj-" + some(60)),
    ("anthropic", "sk-" + "ant-api03-" + some(80)),
    ("hugging_face", "h" + "f_" + some(34, string.ascii_letters)),
    ("model_provider", "gs" + "k_" + some(52)),
    ("npm", "np" + "m_" + some(36)),
    ("pypi", "py" + "pi-AgEIcHlwaS5vcmc" + some(60)),
    ("docker", "dckr" + "_pat_" + some(27)),
    ("twilio", "S" + "K" + some(32, HEX)),
    ("sendgrid", "S" + "G." + some(22) + "." + some(43)),
    ("mail_provider", "key" + "-" + some(32, HEX)),
    ("hosting", "dop" + "_v1_" + some(64, HEX)),
    ("monitoring", "NR" + "AK-" + some(27, UPPER).upper()),
    ("jwt", jwt()),
    ("private_key", "-----BEGIN RSA " + "PRIVATE KEY-----\n" + some(64) + "\n-----END RSA " + "PRIVATE KEY-----"),
    ("private_key", "-----BEGIN OPENSSH " + "PRIVATE KEY-----\n" + some(64) + "\n(cut off"),
    ("connection_string", "postgresql://app:" + "hunter22" + "@db.example:5432/app"),
    ("connection_string", "mongodb+srv://app:" + some(12) + "@cluster.example/test"),
    ("connection_string", "Server=db.example;Database=x;User Id=app;Password=" + some(10) + ";"),
    ("bearer", "curl -H 'Authorization: Bearer " + some(40) + "'"),
    ("generic", 'api_key = "' + some(32) + '"'),
    ("generic", "MY_SERVICE_TOKEN=" + some(24)),
    ("generic", "my password is " + "tr0ub4dor&3"),
    ("generic", '{"client_secret": "' + some(30) + '"}'),
    ("generic", "password: " + "correct7horse"),
]

PASSWORDS = [
    "curl -u admin:Sommer2024! https://intranet.example/api",
    "pw: xK9$mmq2 user: jdoe",
    "log in as jdoe / pass h0lidays-2023",
    "username admin, password Passw0rd!23",
    'the passphrase for my key is "purple-Monkey-42-dishwasher"',
    "the password for the router is Blue7Horse",
    "Mein Passwort lautet Sonnenblume42!",
    "mi contraseña es Madrid2021#",
    "Mon mot de passe est Chocolat!59",
    "minha senha é Lisboa1974!",
    "密码：Winter2019x",
    "password: Tr!cky$Horse",
    "my password is 48219377",
    "my card PIN is 4821",
    "recovery code: 8fk2-99ab-x1",
    "export PGPASSWORD=W1nterWald7",
    "SECRET_KEY='a7(0x)b9!c{2}d#4e5-f6'",
]

CLEAN = [
    "the pass: Smith2Jones, touchdown!",
    "postgres://user:password@localhost/db",
    "The password must have 12 characters and 1 digit",
    "password: minimum 8 characters",
    "if (password === confirmPassword2) { submit(); }",
    "my password is user-friendly!",
    "My email and password: jane@example2.com",
    "should a PIN have 4 or 6 digits?",
    "pin code: 110001",
    "The keyword api_key is documented here.",
    "Set api_key = YOUR_API_KEY_GOES_HERE_123 in the file",
    "password: ********",
    "password = os.environ['DB_PASSWORD_2']",
    "My password is too long and I forgot it",
    "the token is invalid",
    "a token: each word is one",
    "secret = ${SECRET_FROM_VAULT_2}",
    "task-based work and risk-averse people, disk-usage",
    "sk-learn is scikit-learn",
    "https://user@example.com/path",
    "https://example.com:8080/a@b",
    "postgres://app:<password>@db.example/app",
    "postgres://app:${DB_PASS}@db.example/app",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "d41d8cd98f00b204e9800998ecf8427e is the md5 of nothing",
    "550e8400-e29b-41d4-a716-446655440000",
    "the bearer of this letter may enter",
    "Basic understanding of internationalisation",
    "What is a JWT? It starts with eyJ, usually.",
    "secretary: Ms Example2, extension 12",
    "passengers: 12 adults",
    "AKIAnything goes",
    "I'd like to know how an npm_config works",
]


@pytest.mark.parametrize(("kind", "text"), KEYS)
def test_keys_are_found_and_cut_out(kind: str, text: str) -> None:
    for before, behind in (("", ""), ("Here it is: ", " and that is all."), ("```\n", "\n```")):
        finding = finding_of(SECRETS, f"{before}{text}{behind}")
        assert finding.data == {"kinds": {kind: 1}}, finding
        (redaction,) = finding.redactions
        assert redaction.end - redaction.start >= 8
        assert f"{before}{text}{behind}"[redaction.start : redaction.end] not in finding.reason
        assert redaction.placeholder.startswith("[") and redaction.placeholder.endswith("]")


@pytest.mark.parametrize("text", PASSWORDS)
def test_passwords_are_found_as_people_write_them(text: str) -> None:
    (redaction,) = finding_of(SECRETS, text).redactions
    assert (
        any(map(str.isdigit, text[redaction.start : redaction.end]))
        or "$" in text[redaction.start : redaction.end]
    )


@pytest.mark.parametrize("text", CLEAN)
def test_clean(text: str) -> None:
    assert not finding_of(SECRETS, text).found, finding_of(SECRETS, text)


def test_only_the_secret_of_a_connection_string_is_cut_out() -> None:
    text = "postgresql://app:" + "hunter22" + "@db.example/app"
    (redaction,) = finding_of(SECRETS, text).redactions
    assert text[redaction.start : redaction.end] == "hunter22"
    assert redaction.placeholder == "[CONNECTION_STRING]"


def test_the_whole_private_key_is_cut_out() -> None:
    body = "\n".join(some(64) for _ in range(20))
    text = f"Mine:\n-----BEGIN PRIVATE{' KEY'}-----\n{body}\n-----END PRIVATE{' KEY'}-----\nKeep it."
    (redaction,) = finding_of(SECRETS, text).redactions
    assert text[: redaction.start] + text[redaction.end :] == "Mine:\n\nKeep it."


def test_hidden_characters_do_not_hide_a_key() -> None:
    key = "gh" + "p_" + some(36)
    text = key[:10] + "\u200b" + key[10:]
    (redaction,) = finding_of(SECRETS, text).redactions
    assert (redaction.start, redaction.end) == (0, len(text))


def test_settings() -> None:
    key = "gh" + "p_" + some(36)
    assert not finding_of(build_guardrail("secrets", types=("aws",)), key).found
    assert not finding_of(build_guardrail("secrets", allow=(key,)), key).found
    assert not finding_of(build_guardrail("secrets", allow=("/ghp_.*/",)), key).found
    assert (
        finding_of(build_guardrail("secrets", placeholders="plain"), key).redactions[0].placeholder == "[SECRET]"
    )
    assert not finding_of(build_guardrail("secrets", min_entropy=8.0), "api_key = " + some(32)).found
    assert finding_of(build_guardrail("secrets"), f"{key} and again {key}").reason == "2 GitHub tokens"


def test_bad_settings() -> None:
    secrets = GUARDRAILS.get("secrets")
    with pytest.raises(GuardError, match="types is empty"):
        secrets(types=())
    with pytest.raises(UnknownNameError, match="did you mean 'github'"):
        secrets(types=("githib",))
    with pytest.raises(GuardError, match=r"\[0, 8\]"):
        secrets(min_entropy=9)
    with pytest.raises(GuardError, match="lookaround"):
        secrets(allow=("/a(?=b)/",))
    with pytest.raises(UnknownNameError, match="plain"):
        secrets(placeholders="short")


@pytest.mark.parametrize(
    "key", ["AKIA" + "QZ7XW2PLM4NB6VCK", "gh" + "p_" + "a1" * 18, "sk-" + "b2" * 24, "np" + "m_" + "c3" * 18]
)
def test_neighbours_of_a_key_are_no_part_of_it(key: str) -> None:
    for text in (f"“{key}”", f"({key})", f"{key}\n", f"– {key} –", f"a={key};"):
        (redaction,) = finding_of(SECRETS, text).redactions
        assert text[redaction.start : redaction.end] == key
    assert len(finding_of(SECRETS, f"{key} {key},{key}").redactions) == 3


def test_a_private_key_ends_with_its_last_line() -> None:
    key = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq9\n-----END RSA " + "PRIVATE KEY-----"
    putty = "PuTTY-User-Key-" + "File-2: ssh-rsa\nabc\nPrivate-MAC: " + "0a" * 20
    text = f"One: {key} and {putty} and {key}."
    cut = [text[each.start : each.end] for each in finding_of(SECRETS, text).redactions]
    assert cut == [key, putty, key]


@pytest.mark.parametrize(
    "text",
    [
        "la contrase\xf1a del servidor es Guay4b0!Ruidos0",
        "mein Passwort f\xfcr das Portal lautet Kr0kodil!77",
        "le mot de passe du wifi est Bleu-9841-ciel",
        "пароль от админки: Zhuk_9481!snegopad",
        "hasło do panelu: Zamek#9912",
        "ログインのパスワードはNeko!2291",
        "The API key for the translation service is 41b71412ccd9eead644c9650fe16ad1b.",
        "the code for the alarm is 4471",
    ],
)
def test_words_may_stand_between_a_name_and_its_value(text: str) -> None:
    assert finding_of(SECRETS, text).found


@pytest.mark.parametrize(
    "text",
    [
        "AKIA" + "X" * 16,
        "gh" + "p_" + "x" * 36,
        "xox" + "b-your-token-here",
        "-----BEGIN PRIVATE " + "KEY-----\n<redacted>\n-----END PRIVATE " + "KEY-----",
        "Files with -----BEGIN RSA PRIVATE " + "KEY----- in them must never be committed.",
    ],
)
def test_what_only_shows_the_form_of_a_key_is_none(text: str) -> None:
    assert not finding_of(SECRETS, text).found


def test_beyond_a_bound_values_count_by_their_form() -> None:
    text = "password is Tr4in!Lamp9, " * 300
    assert len(finding_of(SECRETS, text).redactions) > 250
