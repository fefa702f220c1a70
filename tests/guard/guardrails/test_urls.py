"""Links are read as a browser reads them, so that no form of writing one passes a list."""

from __future__ import annotations

from string import ascii_letters

import pytest

from turnwise.errors import GuardError
from turnwise.guard import GUARDRAILS, build_guardrail, finding_of

DENY = build_guardrail(
    "urls", deny=("evil.example", "evil.com", "203.0.113.9", "2001:db8::9", "*.wild.net", "bücher.example")
)
ONLY = build_guardrail("urls", allow=("good.com", "198.51.100.7"), allow_only=True)
ALIKE = build_guardrail("urls", allow=("mybank.com", "example.co.uk"))


@pytest.mark.parametrize(
    "text",
    [
        "https://evil.com",
        "see http://evil.com/path?q=1#x.",
        "HTTPS://EVIL.COM",
        "https://sub.evil.com",
        "https://a.b.c.evil.com:8443/",
        "(evil.com/x)",
        "go to evil.com now",
        "www.evil.com",
        "http://localhost.evil.com",
        "evil.com.",
        "https://evil.com./x",
        "https://good.com@evil.com/login",
        "https://good.com:pass@evil.com",
        "https://evil.com\\@good.com",
        "http:evil.com",
        "http:/evil.com",
        "https:\\\\evil.com",
        "http:///evil.com/x",
        "//evil.com/x",
        'src="//evil.com/x"',
        "ftp://evil.com",
        "myapp+x://evil.com",
        "hxxps://evil[.]com/x",
        "evil[.]com",
        "evil(dot)com",
        "https://ev\u200bil.com",
        "https://ｅｖｉｌ．ｃｏｍ",
        "https://evil。com",
        "https://ev%69l.com",
        "[text](https://evil.com)",
        "<https://evil.com>",
        "https://evil.example",
        "evil.example/path",
        "http://203.0.113.9/x",
        "http://3405803785/",
        "http://0xcb.0x0.0x71.0x9",
        "http://0313.0.0161.011",
        "203.0.113.9:8080",
        "http://[2001:db8::9]/x",
        "http://[2001:0db8:0::0009]:80",
        "https://x.wild.net",
        "https://bücher.example",
        "https://xn--bcher-kva.example",
        "https://BÜCHER.example",
        "good.com@evil.com/x",
    ],
)
def test_denied(text: str) -> None:
    assert finding_of(DENY, text).found


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("http://evil.com”", "[URL]”"),
        ("“http://evil.com”", "“[URL]”"),
        ("‘evil.com’", "‘[URL]’"),
        ("|http://evil.com|", "|[URL]|"),
        ("|evil.com|", "|[URL]|"),
        ("访问http://evil.com，谢谢", "访问[URL]，谢谢"),
        ("访问evil.com谢谢", "访问[URL]谢谢"),
        ("网址：evil.com。", "网址：[URL]。"),
        ("evil。com/x", "[URL]"),
        ("evil．com", "[URL]"),
        ("evil｡com", "[URL]"),
        ("https://evil｡com", "[URL]"),
        ("（http://evil.com）", "（[URL]）"),
        ("「http://evil.com」", "「[URL]」"),
        ("【evil.com】", "【[URL]】"),
        ("《https://evil.com/x》", "《[URL]》"),
        ("http://evil.com、他", "[URL]、他"),
        ("http://evil.com！", "[URL]！"),
        ("http://evil.com에서", "[URL]에서"),
        ("evil.comで", "[URL]で"),
        ("смevil.comтут", "см[URL]тут"),
        ("http://evil.com—see", "[URL]—see"),
        ("see—evil.com", "see—[URL]"),
        ("see…evil.com", "see…[URL]"),
        ("see...evil.com", "see...[URL]"),
        ("evil.com…", "[URL]…"),
        ("http://e\u200bvil.com", "[URL]"),
        ("e\xadvil.com", "[URL]"),
        ("see\u200bevil.com\u200bnow", "see\u200b[URL]\u200bnow"),
        ("evil.com\u2060now", "[URL]\u2060now"),
        ("http://evil.com\x00now", "[URL]\x00now"),
        ("\u202eevil.com", "\u202e[URL]"),
        ("http://good.com@evil.com", "[URL]"),
        ("http://good.com'@evil.com/", "[URL]"),
        ("http://a,b;c!@evil.com", "[URL]"),
        ("http://evil.com,x@good.com", "[URL],x@good.com"),
        ("http://evil.com:80", "[URL]"),
        ("evil.com:8080", "[URL]"),
        ("evil.com:8080/x", "[URL]"),
        ("http://evil.com.:80/", "[URL]"),
        ("http://evil.com..", "[URL]"),
        ("EVIL.COM", "[URL]"),
        ("ＥＶＩＬ．ＣＯＭ", "[URL]"),
        ("http://xn--bcher-kva.example”", "[URL]”"),
        ("http://bücher.example", "[URL]"),
        ("http://ev%69l.com", "[URL]"),
        ("ev%69l.com", "[URL]"),
        ("http://evil%2Ecom/", "[URL]"),
        ("http://%65vil.com”", "[URL]”"),
        ("[x](http://evil.com)", "[x]([URL])"),
        ("[http://evil.com]", "[[URL]]"),
        ("[evil.com]", "[[URL]]"),
        ("<evil.com>", "<[URL]>"),
        ("<http://evil.com", "<[URL]"),
        ("*evil.com*", "*[URL]*"),
        ("_evil.com_", "_[URL]_"),
        ("__http://evil.com__", "__[URL]__"),
        ("`evil.com`", "`[URL]`"),
        ("~evil.com~", "~[URL]~"),
        ("{evil.com}", "{[URL]}"),
        ("{http://evil.com}", "{[URL]}"),
        ("evil.com^", "[URL]^"),
        ("http://evil.com^x", "[URL]^x"),
        ("$evil.com$", "$[URL]$"),
        ("#evil.com", "#[URL]"),
        ("→evil.com←", "→[URL]←"),
        ("•evil.com", "•[URL]"),
        ("👉evil.com👈", "👉[URL]👈"),
        ("http://evil.com👈", "[URL]👈"),
        ("evil&#46;com", "[URL]"),
        ("evil&period;com", "[URL]"),
        ("http&colon;//evil.com", "[URL]"),
        ("&lt;http://evil.com&gt;", "&lt;[URL]&gt;"),
        ("http://evil.com&quot;", "[URL]&quot;"),
        ("http://evil.com&nbsp;x", "[URL]&nbsp;x"),
        ("http:&#47;&#47;evil.com", "[URL]"),
        ("&#104;ttp://evil.com", "[URL]"),
        ("http:\\\\evil.com", "[URL]"),
        ("http:/\\evil.com", "[URL]"),
        ("\\\\evil.com\\x", "[URL]"),
        ("http:\\/\\/evil.com\\/x", "[URL]"),
        ("evil.com\\x", "[URL]"),
        ("http://evil.com\\@good.com", "[URL]"),
        ("http://good.com/x”http://evil.com", "http://good.com/x”[URL]"),
        ("http://good.com/x)http://evil.com", "http://good.com/x)[URL]"),
        ("http://good.com/x,http://evil.com", "http://good.com/x,[URL]"),
        ("a|http://x.org|http://evil.com", "a|http://x.org|[URL]"),
        ("evil.com(click", "[URL](click"),
        ("url=evil.com", "url=[URL]"),
        ("url:evil.com", "url:[URL]"),
        ("hxxp[:]//evil[.]com", "[URL]"),
        ("hxxps[://]evil.com", "[URL]"),
        ("evil{.}com", "[URL]"),
        ("http://-x.evil.com", "[URL]"),
        ("http://x-.evil.com", "[URL]"),
        ("http://a_b.evil.com", "[URL]"),
        ("//evil.com”", "[URL]”"),
        ("（//evil.com）", "（[URL]）"),
        ("http://evil.com?x", "[URL]"),
        ("http://evil.com#x", "[URL]"),
        ("evil.com?x=1", "[URL]"),
        ("evil.com,evil.org", "[URL],evil.org"),
        ("evil.com;", "[URL];"),
        ("evil.com!", "[URL]!"),
        ("evil.com?", "[URL]?"),
        ("'evil.com'", "'[URL]'"),
        ('"evil.com"', '"[URL]"'),
        ("%68ttp://evil.com", "[URL]"),
        ("see：http://evil.com；ok", "see：[URL]；ok"),
        ("http：//evil.com", "[URL]"),
        ("http:／／evil.com", "[URL]"),
        ("http://good.com＠evil.com", "[URL]"),
        ("-evil.com", "-[URL]"),
        (".evil.com", ".[URL]"),
        ("или/evil.com", "или/[URL]"),
    ],
)
def test_marks_around_a_host_hide_nothing_and_stay(text: str, cut: str) -> None:
    for each in reversed(finding_of(DENY, text).redactions):
        text = text[: each.start] + each.placeholder + text[each.end :]
    assert text == cut


def test_a_long_user_name_hides_nothing() -> None:
    assert finding_of(DENY, f"http://{'a' * 5_000}@evil.com").found


def test_what_is_beside_a_long_text_in_another_script_is_found() -> None:
    text = "访问网站" * 500 + "evil.com" + "谢谢大家" * 500
    (redaction,) = finding_of(DENY, text).redactions
    assert text[redaction.start : redaction.end] == "evil.com"


@pytest.mark.parametrize(
    "text",
    [
        "https://notevil.com",
        "https://evil.com.org",
        "https://evil.co",
        "https://wild.net",
        "https://good.com/evil.com",
        "https://good.com/?u=https%3A%2F%2Fevil.org",
        "https://evil.com@good.com",
        "mail evil@evil.co or jane@evil.com",
        "the evil.Company of evil. Com",
        "evil com",
        "198.51.100.7",
        "version 2.0.1",
        "http://evil.com:secret@good.com/",
        "good.com/evil.com",
        "evil.company and evil.comet",
        "evil.comédie",
        "devil.com",
        "mail @evil.com",
    ],
)
def test_not_denied(text: str) -> None:
    assert not finding_of(DENY, text).found, finding_of(DENY, text)


@pytest.mark.parametrize(
    "text",
    [
        "https://good.com/a and http://www.good.com:80 and sub.good.com",
        "https://GOOD.com./x",
        "http://198.51.100.7/x",
        "I use node.js, e.g. in main.py, see README.md",
        "That costs 3.50, i.e. less. OK.So be it",
        "jane@example.com",
        "1.5 and 10.2.3",
        "and/or, 24/7, w/o",
        "C:\\Users\\x\\file.txt",
        "// a comment in code",
        "foo.bar.baz()",
        "model.fit(x) and img.save (y), memory.free, mss.tools, io.read",
        "//uint8_t values[]",
        "D.Va is a character",
        "e.g.this or 3.14, file.name.txt and a.b",
        "“http://good.com” |http://good.com|x（good.com）",
        "http://good.com，谢谢。good.com에서",
        "https://good.com/a%20b.org?u=https%3A%2F%2Fother.org",
        "sub\u00addomain.good.com and exam\u00adple.good.com/x",
        "self._reader.info and --config.app and .env.app",
        "std::io.dev and src/main.app",
    ],
)
def test_nothing_to_find_with_an_allow_list(text: str) -> None:
    assert not finding_of(ONLY, text).found, finding_of(ONLY, text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("https://other.org", "other.org is not allowed"),
        ("t.me/x", "t.me is not allowed"),
        ("http://198.51.100.8", "198.51.100.8 is not allowed"),
        ("https://", ""),
        ("https://a..b", "a link that can't be read"),
        ("https://good.com@evil.net", "evil.net is not allowed"),
        ("a.org b.org c.org d.org e.org f.org", "f.org is not allowed"),
    ],
)
def test_only_what_is_allowed(text: str, reason: str) -> None:
    finding = finding_of(ONLY, text)
    assert finding.found is bool(reason)
    assert reason.split(" ", maxsplit=1)[0] in finding.reason or "and 1 more" in finding.reason


@pytest.mark.parametrize(
    "host",
    [
        "mybank.com.evil.net",
        "mybank-com.evil.net",
        "mybankcom.net",
        "my-bank.com",
        "mybank-login.net",
        "login.mybank.evil.net",
        "mybank.net",
        "myb\u0430nk.com",
        "m\u0443bank.com",
        "xn--mbank-eze.com",
        "rnybank.com",
        "mybamk.com",
        "mybnak.com",
        "mybannk.com",
        "myban.com",
        "example.co.uk.evil.net",
        "examp1e.co.uk",
    ],
)
def test_lookalikes(host: str) -> None:
    finding = finding_of(ALIKE, f"log in at https://{host}/x")
    assert "looks like" in finding.reason


@pytest.mark.parametrize(
    "host", ["mybank.com", "www.mybank.com", "bank.com", "embankment.org", "other.co.uk", "co.uk", "mybuses.org"]
)
def test_no_lookalikes(host: str) -> None:
    assert not finding_of(ALIKE, f"see https://{host}/x").found, finding_of(ALIKE, f"see https://{host}/x")


def test_lookalikes_are_a_setting() -> None:
    urls = build_guardrail("urls", allow=("mybank.com",), deny=("evil.com",), lookalikes=False)
    assert not finding_of(urls, "https://mybank.com.evil.net").found


def test_addresses_are_a_setting() -> None:
    urls = build_guardrail("urls", ip_addresses=True, allow=("192.0.2.1",))
    assert finding_of(urls, "http://0x7f000001/").reason == "127.0.0.1 is an IP address"
    assert not finding_of(urls, "http://192.0.2.1/ and https://example.com").found


@pytest.mark.parametrize(
    "text",
    [
        "I got 16.5/18",
        "the plan costs $2.50/month",
        "9.99/mo or 99.00/yr?",
        "rated 4.5/5, GPA 3.8/4.0",
        "24.12.2024/25.12.2024",
        "10.30/11.00, a ratio of 1.5:1 or 1:25.000",
        "Python 3.11/3.12, version 1.2.3.4/x, v1.2.3.4?",
        "section 4.2.1.3/a",
        "192.168.0.0/24 and 10.0.0.0/8",
        "1.000.000/2",
        "the address 203.0.113.9 shows up in my log",
    ],
)
def test_prices_scores_dates_and_versions_are_no_addresses(text: str) -> None:
    assert not finding_of(build_guardrail("urls", ip_addresses=True), text).found
    assert not finding_of(build_guardrail("urls", allow_only=True), text).found


@pytest.mark.parametrize(
    "text",
    [
        "203.0.113.9:8443",
        "open 203.0.113.9/admin",
        "203.0.113.9/",
        "203.0.113.9?ref=mail",
        "203[.]0[.]113[.]9/payload",
        "http://203.0.113.9",
        "http://3405803785/",
        "http://1.2/x",
    ],
)
def test_an_address_without_a_scheme_has_four_numbers_and_a_port_or_path(text: str) -> None:
    assert "is an IP address" in finding_of(build_guardrail("urls", ip_addresses=True), text).reason


def test_denied_wins_over_allowed() -> None:
    urls = build_guardrail("urls", allow=("example.com",), deny=("bad.example.com",), allow_only=True)
    assert finding_of(urls, "https://x.bad.example.com").reason == "x.bad.example.com is denied"
    assert not finding_of(urls, "https://example.com").found


def test_no_links_at_all() -> None:
    assert finding_of(build_guardrail("urls", allow_only=True), "see example.com/x").found


def test_redactions_cut_out_the_whole_link() -> None:
    text = "See HTTPS://Evil\u200b.com/a?b=c, then (www.evil.com). Or evil.com/x!"
    finding = finding_of(DENY, text)
    for each in reversed(finding.redactions):
        text = text[: each.start] + each.placeholder + text[each.end :]
    assert text.startswith("See [URL]")
    assert "evil" not in text.lower()
    assert "([URL])" in text
    assert finding.data == {"links": 3}


def test_very_many_hosts_end_as_a_finding() -> None:
    text = " ".join(f"h{index}.example.org" for index in range(1_500))
    finding = finding_of(DENY, text)
    assert finding.reason == "too many hosts"
    assert finding.redactions[-1].end == len(text)


def test_where_only_addresses_count_very_many_hosts_are_none() -> None:
    text = " ".join(f"https://{first}{second}.example.org/" for first in ascii_letters for second in ascii_letters)
    addresses = build_guardrail("urls", ip_addresses=True)
    assert not finding_of(addresses, text).found
    assert finding_of(addresses, f"{text} http://10.1.2.3/x").redactions[0].start == len(text) + 1


@pytest.mark.parametrize("entry", ["https://example.com", "example.com/x", "", "a b.com", "..", 7])
def test_an_entry_that_is_no_domain(entry: str) -> None:
    with pytest.raises(GuardError, match=r"give a domain such as example\.com"):
        GUARDRAILS.get("urls")(deny=(entry,))


def test_bad_settings() -> None:
    urls = GUARDRAILS.get("urls")
    with pytest.raises(GuardError, match="nothing to look for"):
        urls()
    with pytest.raises(GuardError, match="nothing to look for"):
        urls(allow=("example.com",), lookalikes=False)
    with pytest.raises(GuardError, match="give a list"):
        urls(deny="example.com")


@pytest.mark.parametrize(
    "text",
    [
        "evil dot example",
        "go to evil (dot) example",
        "evil [.] example",
        "cdn dot evil dot example slash a",
        "evil punkt example",
        "look at evil .example",
    ],
)
def test_a_denied_domain_is_found_with_its_full_stops_spelled(text: str) -> None:
    assert finding_of(DENY, text).found


@pytest.mark.parametrize(
    "text",
    [
        "He is pure evil . Example: he lies",
        "an evil dot example dot com page",
        "bob (at) evil dot example",
        "connect the dot com boom",
    ],
)
def test_spelled_full_stops_make_no_other_links(text: str) -> None:
    assert not finding_of(DENY, text).found
