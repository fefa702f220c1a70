"""Keys and tokens of the usual providers, by their published forms."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal, NamedTuple

from turnwise.guard.recognisers import assigned_secrets
from turnwise.guard.recognisers.text import Span, TextReading
from turnwise.linear_regex import LinearRegex

KeyType = Literal[
    "aws",
    "azure",
    "google_cloud",
    "github",
    "gitlab",
    "slack",
    "discord",
    "telegram",
    "stripe",
    "shopify",
    "openai",
    "anthropic",
    "hugging_face",
    "model_provider",
    "npm",
    "pypi",
    "docker",
    "twilio",
    "sendgrid",
    "mail_provider",
    "hosting",
    "monitoring",
    "jwt",
    "private_key",
    "connection_string",
    "bearer",
    "generic",
]
"""What is known, by provider or form."""


class KeyForm(NamedTuple):
    """How the keys of a provider look.

    `hints` are what any of them contains, and ignore case; of `pattern` the group that took part is the secret.
    Both are RE2. A match of the second group needs a digit among its first `digit_within` characters; 0 for no
    such rule.
    """

    singular: str
    hints: tuple[str, ...]
    pattern: str
    confidence: float
    digit_within: int = 0


_FORMS: Mapping[KeyType, KeyForm] = {
    "aws": KeyForm(
        "AWS key",
        ("a(?:kia|sia|bia|cca)[0-9a-z]{8}", "aws.*(?:secret|key|token)", "secret.?access.?key"),
        r"(A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16})(?:[^A-Za-z0-9]|$)"
        r"|(?i:aws.{0,20}?(?:secret|key)|secret.?access.?key)[^\n]{0,20}?[=:\"' ]([A-Za-z0-9/+]{40})"
        r"(?:[^A-Za-z0-9/+=]|$)",
        0.97,
    ),
    "azure": KeyForm(
        "Azure key",
        ("accountkey=", "sharedaccesskey=", "[0-9]q~", "[?&]sig="),
        r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{43,86}={1,2})"
        r"|(?:^|[^\w~.-])([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})(?:[^\w~-]|$)"
        r"|[?&]sig=([A-Za-z0-9%+/]{40,100}(?:%3[Dd]|=))",
        0.97,
    ),
    "google_cloud": KeyForm(
        "Google Cloud key",
        ("aiza[0-9a-z_-]{8}", r"ya29\.", "gocspx-"),
        r"(?:^|[^\w-])(AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{20,}|GOCSPX-[0-9A-Za-z_-]{28})(?:[^\w-]|$)",
        0.97,
    ),
    "github": KeyForm(
        "GitHub token",
        ("gh[pousr]_[0-9a-z]{8}", "github_pat_"),
        r"(?:^|[^A-Za-z0-9])(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})",
        0.99,
    ),
    "gitlab": KeyForm(
        "GitLab token",
        ("gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas)-[0-9a-z_-]{8}", "gr1348941"),
        r"(?:^|[^A-Za-z0-9])(gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas)-[A-Za-z0-9_.-]{20,}"
        r"|GR1348941[A-Za-z0-9_-]{20})",
        0.98,
    ),
    "slack": KeyForm(
        "Slack token",
        ("xox[abeoprs]-", "xapp-[0-9]", "hooks.slack.com/"),
        r"(?:^|[^A-Za-z0-9])(xox[abeoprs]-[0-9A-Za-z-]{10,}|xapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]{20,}"
        r"|hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/+]{20,})",
        0.98,
    ),
    "discord": KeyForm(
        "Discord token",
        ("discord(?:app)?.com/api/webhooks/", r"\.[a-z0-9_-]{6}\.[a-z0-9_-]{8}"),
        r"(discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,70})"
        r"|(?:^|[^\w-])([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38})(?:[^\w-]|$)",
        0.95,
    ),
    "telegram": KeyForm(
        "Telegram bot token",
        ("[0-9]{8,10}:aa",),
        r"(?:^|[^0-9])([0-9]{8,10}:AA[A-Za-z0-9_-]{33})(?:[^\w-]|$)",
        0.97,
    ),
    "stripe": KeyForm(
        "Stripe key",
        ("[srp]k_(?:live|test)_", "whsec_"),
        r"(?:^|[^A-Za-z0-9])([sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{24,})",
        0.98,
    ),
    "shopify": KeyForm(
        "Shopify token",
        ("shp(?:at|ca|pa|ss)_",),
        r"(?:^|[^A-Za-z0-9])(shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32})(?:[^A-Za-z0-9]|$)",
        0.98,
    ),
    "anthropic": KeyForm("Anthropic key", ("sk-ant-",), r"(?:^|[^A-Za-z0-9])(sk-ant-[A-Za-z0-9_-]{20,})", 0.99),
    "openai": KeyForm(
        "OpenAI key",
        ("sk-[a-z0-9_-]{8}",),
        r"(?:^|[^A-Za-z0-9])(?:(sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,})"
        r"|(sk-[A-Za-z0-9]{20,64})(?:[^A-Za-z0-9_-]|$))",
        0.97,
        digit_within=23,
    ),
    "hugging_face": KeyForm(
        "Hugging Face token",
        ("hf_[a-z]{8}", "api_org_"),
        r"(?:^|[^A-Za-z0-9])(hf_[A-Za-z0-9]{34}|api_org_[A-Za-z0-9]{34})(?:[^A-Za-z0-9]|$)",
        0.98,
    ),
    "model_provider": KeyForm(
        "model provider's key",
        ("gsk_", "r8_", "pplx-", "xai-", "sk-or-", "nvapi-", "fw_[a-z0-9]{8}", "pcsk_"),
        r"(?:^|[^A-Za-z0-9])(gsk_[A-Za-z0-9]{40,60}|r8_[A-Za-z0-9]{37}|pplx-[A-Za-z0-9]{40,56}|xai-[A-Za-z0-9]{70,90}"
        r"|sk-or-v1-[a-f0-9]{64}|nvapi-[A-Za-z0-9_-]{50,80}|fw_[A-Za-z0-9]{24}|pcsk_[A-Za-z0-9_]{50,80})(?:[^A-Za-z0-9]|$)",
        0.98,
    ),
    "npm": KeyForm(
        "npm token", ("npm_[a-z0-9]{20}",), r"(?:^|[^A-Za-z0-9])(npm_[A-Za-z0-9]{36})(?:[^A-Za-z0-9]|$)", 0.98
    ),
    "pypi": KeyForm("PyPI token", ("pypi-",), r"(?:^|[^A-Za-z0-9])(pypi-A[A-Za-z0-9_-]{50,})", 0.98),
    "docker": KeyForm(
        "Docker token", ("dckr_pat_",), r"(?:^|[^A-Za-z0-9])(dckr_pat_[A-Za-z0-9_-]{20,60})(?:[^\w-]|$)", 0.98
    ),
    "twilio": KeyForm(
        "Twilio key", ("sk[0-9a-f]{32}",), r"(?:^|[^A-Za-z0-9])(SK[0-9a-f]{32})(?:[^A-Za-z0-9]|$)", 0.93
    ),
    "sendgrid": KeyForm(
        "SendGrid key",
        (r"sg\.[a-z0-9_-]{8}",),
        r"(?:^|[^A-Za-z0-9])(SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{30,64})(?:[^\w-]|$)",
        0.99,
    ),
    "mail_provider": KeyForm(
        "mail provider's key",
        ("key-[0-9a-f]{8}", "[0-9a-f]{32}-us[0-9]", "xkeysib-"),
        r"(?:^|[^A-Za-z0-9])(key-[0-9a-f]{32}|[0-9a-f]{32}-us[0-9]{1,2}|xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16})"
        r"(?:[^A-Za-z0-9]|$)",
        0.95,
    ),
    "hosting": KeyForm(
        "hosting provider's token",
        (
            "do[opr]_v1_",
            "dapi[0-9a-f]{8}",
            "hrku-",
            r"hvs\.",
            "sbp_",
            "dp.(?:pt|st|ct|sa).",
            "age-secret-key-",
            "atatt3",
            "lin_api_",
            "ntn_",
            "ghu_",
        ),
        r"(?:^|[^A-Za-z0-9])(do[opr]_v1_[a-f0-9]{64}|dapi[0-9a-f]{32}(?:-[0-9])?|HRKU-[A-Za-z0-9_-]{36,65}"
        r"|hvs\.[A-Za-z0-9_-]{24,200}|sbp_[a-f0-9]{40}|dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9_.-]{40,60}"
        r"|AGE-SECRET-KEY-1[A-Z0-9]{58}|ATATT3[A-Za-z0-9_=-]{100,250}|lin_api_[A-Za-z0-9]{40}|ntn_[A-Za-z0-9]{40,50})"
        r"(?:[^A-Za-z0-9]|$)",
        0.97,
    ),
    "monitoring": KeyForm(
        "monitoring provider's key",
        ("gl(?:c|sa)_", "nrak-", "sntrys_", "sntryu_", "phx_", "dd_api"),
        r"(?:^|[^A-Za-z0-9])(glc_[A-Za-z0-9+/=]{32,400}|glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}|NRAK-[A-Z0-9]{27}"
        r"|sntrys_[A-Za-z0-9+/=_-]{60,500}|sntryu_[a-f0-9]{64}|phx_[A-Za-z0-9]{43})(?:[^A-Za-z0-9]|$)",
        0.97,
    ),
    "jwt": KeyForm(
        "JSON web token",
        (r"eyj[a-z0-9_-]{8,}\.eyj[a-z0-9_-]*\.",),
        r"(?:^|[^\w-])(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,})",
        0.97,
    ),
    "private_key": KeyForm(
        "private key",
        ("-----begin [a-z0-9 ]*private key", "putty-user-key-file"),
        r"-----BEGIN ([A-Z0-9 ]{0,20}PRIVATE KEY(?: BLOCK)?)-----|PuTTY-User-Key-File-[0-9]",
        0.99,
    ),
    "connection_string": KeyForm(
        "connection string with a password",
        (r"[a-z]://[^\s/]*:[^\s/]+@", r"(?:password|pwd)\s?=\s?[^\s;]+;"),
        r"(?:^|[^A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/?#@\[\]]{0,100}:([^\s/@<>${}*]{3,200})"
        r"@[\w\[\xc0-\x{10ffff}]"
        r"|(?i:server|host|data source|endpoint)=[^;\n]{1,200};[^\n]{0,200}?(?i:password|pwd)\s?=\s?"
        r"([^\s;'\"<>${}*]{3,200})",
        0.95,
    ),
    "bearer": KeyForm(
        "bearer token",
        (
            "bearer +[a-z0-9._~+/-]{8}",
            "basic +[a-z0-9+/]{8}",
            r"curl .*-u(?:ser)?[ =]?[\"']?[^\s:\"'/]+:[^\s]",
        ),
        r"(?i:authorization|auth|header|-H)\b[^\n]{0,20}?(?i:bearer|basic) +([A-Za-z0-9._~+/-]{16,}=*)"
        r"|\bBearer +([A-Za-z0-9._~+/-]{20,}=*)"
        r"|\bcurl [^\n]{0,200}?-(?:u|-user)[ =]?[\"']?[^\s:\"'/]{1,80}:([^\s\"'`<>${}*/]{3,200})",
        0.9,
        digit_within=41,
    ),
}
"""Forms by type. Source: the providers' documentation of their key formats; RFC 7519 and RFC 7468."""

_OWN_PLURAL = {
    "connection_string": ("connection string with a password", "connection strings with a password"),
    "generic": ("key or password", "keys or passwords"),
}
NAMES: Mapping[str, tuple[str, str]] = {
    str(kind): (form.singular, f"{form.singular}s") for kind, form in _FORMS.items()
} | _OWN_PLURAL
"""Singular and plural by kind."""

_PLACEHOLDERS = frozenset({"password", "passwd", "pass", "pwd", "secret", "your_password", "yourpassword"})
"""Passwords in connection strings that stand for one."""

_STAND_INS = ("xxxx", "placeholder", "redacted", "dummy", "your-", "your_", "yourkey", "yourtoken")
_TAIL = 8
"""Characters at the end of a value that are all the same in a stand-in alone."""

_BASE_64 = LinearRegex(r"[A-Za-z0-9+/=]{10,}")
_LETTERS_ALONE = 30
"""Letters, at least, that are part of a key without any digit among them."""

_TO_BODY = 400
"""Characters behind the first line of a private key in which its body begins."""

_LONGEST_PRIVATE_KEY = 20_000
_PUTTY_END = LinearRegex(r"Private-MAC: [0-9a-f]{40,64}")


def find_keys(text: TextReading, kind: KeyType) -> Iterator[Span]:
    """The keys of a kind, which is any but ``generic``, in a text whose case was kept."""
    plain, form = text.plain, _FORMS[kind]
    if kind == "private_key":
        yield from _private_keys(plain, form)
        return
    for _, *groups in _compiled(form.pattern).spans(plain, overlapping=True):
        start, end = max(groups)
        if kind == "connection_string" and plain[start:end].lower() in _PLACEHOLDERS:
            continue
        if _is_stand_in(plain[start:end]):
            continue
        loose = form.digit_within and groups[1] == (start, end)
        if not loose or any(map(str.isdigit, plain[start : min(end, start + form.digit_within)])):
            yield Span(start, end, kind, form.confidence)


def _is_stand_in(value: str) -> bool:
    """Whether a value only shows the form of a key: one sign repeated at its end, or words that say so."""
    lower = value.lower()
    return len(set(lower[-_TAIL:])) == 1 or any(word in lower for word in _STAND_INS)


def _has_body(text: str) -> bool:
    """Whether what stands behind the first line of a private key is one, in base 64 or disguised."""
    for run in _BASE_64.finditer("".join(text.split())):
        body = run[0]
        digit, small = any(map(str.isdigit, body)), any(map(str.islower, body))
        if any(map(str.isupper, body)) and (digit or small) and (digit or len(body) >= _LETTERS_ALONE):
            return True
    return False


def _private_keys(plain: str, form: KeyForm) -> Iterator[Span]:
    """Private keys from their first line to their last, or as far as one goes where that is missing."""
    ends: list[tuple[int, int]] | None = None
    behind = 0
    for (start, end), label in _compiled(form.pattern).spans(plain):
        if start < behind:
            continue
        limit = end + _LONGEST_PRIVATE_KEY
        if label[0] < 0:
            if ends is None:
                ends = [(match.start, match.end) for match in _PUTTY_END.finditer(plain)]
            at = bisect_left(ends, (end, 0))
            if at == len(ends) or ends[at][0] > limit:
                continue
            behind = ends[at][1]
        else:
            last = f"-----END {plain[slice(*label)]}-----"
            at = plain.find("-----END ", end, limit + len(last))
            behind = min(limit, len(plain)) if at < 0 else at + len(last) * plain.startswith(last, at)
            if not _has_body(plain[end : min(end + _TO_BODY, len(plain) if at < 0 else at)]):
                continue
        yield Span(start, behind, "private_key", form.confidence)


@cache
def _compiled(pattern: str) -> LinearRegex:
    return LinearRegex(pattern)


HINTS: Mapping[KeyType, tuple[str, ...]] = {
    **{kind: form.hints for kind, form in _FORMS.items()},
    "generic": assigned_secrets.SHAPES,
}
"""What a text has, at least, in which there may be one, by kind; RE2, ignoring case."""
