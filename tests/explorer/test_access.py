"""Who may look at the explorer, and who may not."""

import asyncio

import httpx
import pytest
from starlette.responses import PlainTextResponse

from turnwise.errors import UsageError
from turnwise.explorer import Access, AccessGate, access_for

PASSWORD = "correct horse battery"


async def secret(scope, receive, send):
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
    else:
        await PlainTextResponse("the conversations")(scope, receive, send)


def browser(access):
    """A browser, with its cookies, in front of a gate."""
    transport = httpx.ASGITransport(app=AccessGate(secret, access))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8010")


def looks(access, *requests):
    """Return what a browser is answered, request by request: a path, or method, path and more."""

    async def ask():
        async with browser(access) as client:
            return [
                await (client.get(one) if isinstance(one, str) else client.request(one[0], one[1], **one[2]))
                for one in requests
            ]

    return asyncio.run(ask())


def test_the_token_of_the_address_lets_a_browser_in_and_leaves_the_address():
    access = Access()
    entered, then = looks(access, f"/sequences?label=attack&token={access.token}", "/sequences")
    assert (entered.status_code, entered.headers["location"]) == (303, "/sequences?label=attack")
    assert "HttpOnly" in entered.headers["set-cookie"] and "SameSite=strict" in entered.headers["set-cookie"]
    assert then.text == "the conversations"


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=guessed", "/static/explorer.js", "/_nicegui/x"])
def test_without_the_token_nothing_is_seen(path):
    [answer] = looks(Access(), path)
    assert answer.status_code == 401 and "conversations" not in answer.text
    assert "set-cookie" not in answer.headers


def test_every_answer_forbids_the_browser_to_ask_another_host():
    access = Access()
    for answer in looks(access, "/", f"/?token={access.token}", "/"):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy and "http" not in policy
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("origin", "with_cookie", "opened"),
    [(b"http://127.0.0.1:8010", True, True), (None, False, False), (b"http://elsewhere.example", True, False)],
)
def test_a_websocket_opens_for_the_explorers_own_page_alone(origin, with_cookie, opened):
    access = Access()
    [entered] = looks(access, f"/?token={access.token}")
    headers = [(b"host", b"127.0.0.1:8010")]
    headers += [(b"origin", origin)] if origin else []
    headers += [(b"cookie", entered.headers["set-cookie"].partition(";")[0].encode())] if with_cookie else []
    sent = []

    async def send(message):
        sent.append(message["type"])

    scope = {"type": "websocket", "path": "/socket", "headers": headers, "query_string": b""}
    asyncio.run(AccessGate(secret, access)(scope, None, send))
    assert sent == ["websocket.accept" if opened else "websocket.close"]


def test_elsewhere_than_on_this_machine_it_demands_a_password():
    with pytest.raises(UsageError, match="set a password in TURNWISE_EXPLORER_PASSWORD"):
        access_for("0.0.0.0", None)
    with pytest.raises(UsageError, match="at least 12 characters") as told:
        access_for("0.0.0.0", "hunter2")
    assert "hunter2" not in str(told.value)
    assert access_for("0.0.0.0", PASSWORD).token is None
    assert access_for("127.0.0.1", None).token and access_for("::1", None).token


def test_the_password_opens_it_and_leads_to_where_one_wanted_to_go():
    asked, wrong, right, then = looks(
        Access(PASSWORD),
        "/query?run=a",
        ("POST", "/login?next=/query?run=a", {"data": {"password": "my own guess"}}),
        ("POST", "/login?next=/query%3Frun=a", {"data": {"password": PASSWORD}}),
        "/query?run=a",
    )
    assert asked.headers["location"] == "/login?next=%2Fquery%3Frun%3Da"
    assert wrong.status_code == 401 and PASSWORD not in wrong.text and "my own guess" not in wrong.text
    assert (right.status_code, right.headers["location"]) == (303, "/query?run=a")
    assert then.text == "the conversations"


@pytest.mark.parametrize("target", ["//elsewhere.example", "https://elsewhere.example", "/\\elsewhere.example"])
def test_the_form_leads_to_no_other_host(target):
    [entered] = looks(Access(PASSWORD), ("POST", f"/login?next={target}", {"data": {"password": PASSWORD}}))
    assert entered.headers["location"] == "/"


def test_after_ten_wrong_passwords_not_even_the_right_one_is_taken_for_a_minute():
    now = [0.0]
    access = Access(PASSWORD, clock=lambda: now[0])
    wrong = ("POST", "/login", {"data": {"password": "a guess"}})
    right = ("POST", "/login", {"data": {"password": PASSWORD}})
    assert [one.status_code for one in looks(access, *[wrong] * 10, right)] == [401] * 10 + [429]
    now[0] = 61.0
    assert [one.status_code for one in looks(access, right)] == [303]
