"""What holds for every page, light and dark, phone and desk: it fits, all can use it, and texts stay texts."""

from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from explored import explored
from work_store import HOSTILE, talk, write_study

from turnwise.clock import utc_now
from turnwise.conversation import Conversation, Label, Sequence
from turnwise.explorer import VIEWS
from turnwise.scoring import Evaluation, EvaluationKey, Provenance, Score
from turnwise.store import Run, Store

pytestmark = pytest.mark.integration

WIDTHS = (390, 768, 1280)
LONG = "conversation-without-any-break-" + "0123456789abcdef" * 8

ASKED = {"/sequence": {"id": LONG, "simulation": "yes", "words": "hello"}, "/sequences": {"words": "hello"},
         "/label": {"id": LONG}, "/compare": {"a": LONG, "b": HOSTILE}, "/guard": {"id": LONG}}  # fmt: skip
CASES = [(path, ASKED.get(path, {})) for path in (*(view.path for view in VIEWS), "/nowhere")]
CASES += [
    ("/guard", {"tab": "audit"}),
    ("/guard", {"tab": "report", "threshold": "0.4"}),
    ("/guard", {"tab": "service"}),
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A store, an audit and a study in which every text is hostile, one name wider than any screen."""
    file = tmp_path_factory.mktemp("hostile") / "hostile.db"
    run = Run(HOSTILE, HOSTILE, "1", "history", {"note": HOSTILE}, {}, "test", utc_now())
    provenance = Provenance(HOSTILE, "1", "1", "history", {"note": HOSTILE}, "test")
    with Store(file, create=True) as store:
        for name, label in ((LONG, Label.ATTACK), (HOSTILE, Label.BENIGN)):
            chat = Conversation()
            chat.add_turn(f"Hello {HOSTILE}", response=HOSTILE, metadata={"said": HOSTILE})
            chat.add_turn(LONG, response="yes")
            store.add_sequences([Sequence(name, label, HOSTILE, chat, {"tactic": HOSTILE, HOSTILE: LONG})])
        store.start_run(run)
        store.append(
            Evaluation(EvaluationKey(HOSTILE, name, turn, "prompt", HOSTILE), Score(0.1, 0.2, 0.9), provenance,
                       utc_now(), reasoning=HOSTILE, raw_reply=LONG)
            for name in (LONG, HOSTILE) for turn in (1, 2)
        )  # fmt: skip
    write_study(file.parent / "study", arm=HOSTILE, source=HOSTILE, warning=f"{HOSTILE} {LONG}")
    talk(file, LONG, f"Tell me of acme {HOSTILE}")
    with explored("--store", str(file)) as running:
        yield running


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("path", "asked"), CASES)
def test_a_page_is_accessible_fits_the_screen_and_keeps_texts_inert(let_in, hostile, path, asked, scheme):
    page = let_in(hostile)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.goto(f"{hostile.url}{path}?{urlencode(asked)}")
    page.locator("main .waiting").wait_for(state="detached")
    page.wait_for_timeout(1_000)  # charts and tables come a moment later
    assert page.locator("body.body--dark").count() == (scheme == "dark")
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(300)
        wide = page.evaluate(
            "document.documentElement.scrollWidth <= innerWidth ? [] : "
            "[...document.querySelectorAll('body *')]."
            "filter((one) => one.getBoundingClientRect().right > innerWidth + 1"
            " && !one.parentElement.closest('.data, .scroll'))"
            ".slice(0, 5).map((one) => one.outerHTML.slice(0, 120))"
        )
        found += [f"{width}: too wide: {one}" for one in wide]
        for one in Axe().run(page).response["violations"]:
            if one["impact"] in ("serious", "critical"):
                found += [f"{width}: {one['id']}: {node['html'][:160]}" for node in one["nodes"][:3]]
    if path == "/nowhere":
        page.watched.errors.clear()  # the browser says that it was not found
        page.get_by_role("heading", name="There is no such page").wait_for()
    assert "\n".join(found) == ""
    assert page.evaluate("window.pwned") is None
    assert page.locator("#content script, #content img[src=x]").count() == 0
    seen = page.locator("#content").inner_text()
    assert not any(character in seen for character in "\x1b\u202e\u202c")
    assert not any(character in page.title() for character in "\x1b\u202e\u202c")
