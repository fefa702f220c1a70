"""What the guard must hold, measured. Run with ``python benchmarks/guard.py --data PATH``.

One thread, warm, preset customer_service unless a row says otherwise. What the guard itself costs is measured
with an observer that gives fixed scores, what a user waits for with the preset as it is. Prints what was measured
beside what is required:

- milliseconds of `check_input` for a message of 40 tokens, at turns 10, 1,000 and 10,000 by the guard itself, at
  turns 10 and 200 by the preset as it is;
- bytes a turn of a conversation of 1,000 turns, beyond its text;
- bytes that a state store keeps of a conversation of 100 turns, and milliseconds to load one of 10, 100
  and 400 turns with the next check (``--state``);
- milliseconds for 100,000 characters of hostile input, preset by preset;
- checks a second of 16 concurrent async conversations, beside those of one;
- verdicts on their own turn and limits that hold, under 8 threads;
- blocks by `drift` in conversations of 200 harmless turns, chained from benign chats (``--data``);
- what becomes of harmless turns after an attack was blocked, and how many attacks are blocked (``--data``).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from turnwise import Conversation, GuardrailPipeline
from turnwise.guard import SqliteStateStore
from turnwise.guard.config import preset_text
from turnwise.guard.names import digest_of
from turnwise.guard.rate_limits import LIMIT
from turnwise.guard.state.conversations import STORED
from turnwise.guard.state.stores import key_of
from turnwise.guard.written_values import read_yaml
from turnwise.rates import clopper_pearson
from turnwise.sessions import SESSION

PRESET = "customer_service"
CITIES = ("Lisbon", "Porto", "Madrid", "Paris", "Vienna", "Prague", "Berlin", "Rome", "Athens", "Dublin", "Oslo")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MESSAGES = tuple(
    f"Could you tell me how long the parcel usually takes to {city}, and whether I can still change the address "
    f"before it leaves your warehouse on {day} morning, please, since I move to a new flat that day?"
    for city in CITIES
    for day in DAYS
)
"""About forty tokens of the embedded observer each, and no two alike in a row."""
MESSAGE = MESSAGES[0]

CHAIN = 200
"""Turns of a long harmless conversation."""

BENIGN = ("arena_real_users", "mtbench101", "mtrag_un_human", "mt_bench")
HOSTILE = {
    "'a.' repeated": "a." * 50_000,
    "brackets": "[(" * 25_000 + ")]" * 25_000,
    "digits": "1234567890" * 10_000,
    "digit groups": "4111 1111 1111 1111 " * 5_000,
    "'@' runs": "a@" * 50_000,
    "one long word": "a" * 100_000,
    "lines": "\n" * 100_000,
    "URLs": "http://" * 14_000,
    "zero-width": "a\u200b" * 50_000,
    "base64": "QUJD" * 25_000,
}


def row(what: str, measured: str, required: str, holds: bool | None = None) -> None:
    """Print one row of the table."""
    mark = "" if holds is None else "yes" if holds else "NO"
    print(f"{what:66} {measured:>30}   {required:>14} {mark:>4}")


def tokens() -> list[int]:
    """Return how many tokens the messages have."""
    from turnwise.observers.local.weights import load_weights, shipped

    tokenizer = load_weights(shipped("local")).tokenizer
    return [len(tokenizer.encode(message, add_special_tokens=False).ids) for message in MESSAGES]


def without_observer(name: str) -> GuardrailPipeline:
    """Return the pipeline of a preset whose guardrails ask an observer that gives fixed scores at once."""
    config, _ = read_yaml(preset_text(name), name)
    fixed = {"observer": "scripted:0.1", "warn_above": 0.5, "block_above": 0.8}
    given = {"harm": fixed, "prompt_injection": fixed, "drift": {"observer": "scripted:0.1"}}
    for place, one in enumerate(config["guardrails"]):
        kind, settings = (one, {}) if isinstance(one, str) else next(iter(one.items()))
        if kind in given:
            config["guardrails"][place] = {kind: {**(settings or {}), **given[kind]}}
    return GuardrailPipeline(config)


def timed(pipeline: GuardrailPipeline, conversation: Conversation, checks: int) -> list[float]:
    """Return the seconds of so many checks."""
    seconds = []
    for number in range(checks):
        message = MESSAGES[number % len(MESSAGES)]
        start = time.perf_counter()
        pipeline.check_input(message, conversation=conversation)
        seconds.append(time.perf_counter() - start)
        pipeline.check_output("It usually takes four working days.", conversation=conversation)
    return seconds


def at_turn(pipeline: GuardrailPipeline, turn: int, checks: int = 400) -> list[float]:
    """Return the seconds of checks around a turn; around an early one from many conversations."""
    if turn < checks:
        seconds: list[float] = []
        while len(seconds) < checks:
            conversation = Conversation.human_ai("user", "model")
            seconds += timed(pipeline, conversation, turn + 5)[-10:]
        return seconds
    conversation = Conversation.human_ai("user", "model")
    return timed(pipeline, conversation, turn + checks // 2)[-checks:]


def speed(turns: tuple[int, ...]) -> None:
    """Measure checks at several turns."""
    pipeline = without_observer(PRESET)
    timed(pipeline, Conversation.human_ai("user", "model"), 300)
    medians = {}
    gc.collect()
    gc.freeze()
    for turn in turns:
        seconds = sorted(at_turn(pipeline, turn))
        medians[turn] = 1e3 * statistics.median(seconds)
        late = 1e3 * seconds[int(0.99 * len(seconds))]
        row(f"guard itself at turn {turn:,}, median ms", f"{medians[turn]:.3f}", "<= 0.6", medians[turn] <= 0.6)
        row(f"guard itself at turn {turn:,}, 99th percentile ms", f"{late:.3f}", "<= 2", late <= 2)
    gc.unfreeze()
    ratio = max(medians.values()) / min(medians.values())
    row("slowest of these medians over the fastest", f"{ratio:.2f}", "<= 1.2", ratio <= 1.2)
    whole = GuardrailPipeline.from_preset(PRESET)
    for turn in (10, 200):
        median = 1e3 * statistics.median(at_turn(whole, turn, checks=60))
        row(f"check_input at turn {turn}, median ms", f"{median:.0f}", "<= 110", median <= 110)


def memory() -> None:
    """Measure what a long conversation keeps."""
    pipeline = without_observer(PRESET)
    timed(pipeline, Conversation.human_ai("user", "model"), 20)
    texts = [f"{MESSAGE} ({number})" for number in range(1_000)]
    answers = [f"It usually takes four working days. ({number})" for number in range(1_000)]
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    conversation = Conversation.human_ai("user", "model")
    for text, answer in zip(texts, answers, strict=True):
        pipeline.check_input(text, conversation=conversation)
        pipeline.check_output(answer, conversation=conversation)
    gc.collect()
    kept = (tracemalloc.get_traced_memory()[0] - before) / 1_000
    tracemalloc.stop()
    row("bytes a turn beyond its text, both sides checked", f"{kept:,.0f}", "<= 2,048", kept <= 2_048)


def state() -> None:
    """Measure what a state store keeps of a conversation, and how long it takes to go on with one."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStateStore(f"{folder}/whole.db")
        config: dict[str, object] = {"guardrails": ["drift"], "rate_limits": {"per_key": {"minute": 20}}}
        pipeline = GuardrailPipeline(config, state_store=store)
        # The first 80 are read once, as those of a conversation that began elsewhere: what is kept is the same.
        said = [(MESSAGES[number % len(MESSAGES)], "It usually takes four working days.") for number in range(80)]
        chat = Conversation.from_turns(said, initiator="user", conversation_id="c")
        largest = 0
        for number in range(80, 100):
            pipeline.check_input(MESSAGES[number % len(MESSAGES)], conversation=chat, key="key")
            pipeline.check_output("It usually takes four working days.", conversation=chat)
            largest = max(largest, len(store.parts(STORED, "c", ["state:drift"])["state:drift"]))
        parts = store.parts(STORED, "c")
        sizes = {
            "outline": len(STORED.pack(store.get(STORED, "c"))),
            "drift, the largest of the last 20 turns": largest,
            "session": len(SESSION.pack(store.get(SESSION, key_of("drift", digest_of("c"))))),
            "rate limit, 20 prompts": len(LIMIT.pack(store.get(LIMIT, digest_of("key")))),
        }
        for what, size in sizes.items():
            row(f"state of 100 turns: {what}, bytes", f"{size:,}", "")
        whole = sum(sizes.values())
        row("state of 100 turns together, bytes", f"{whole:,}", "<= 1,229", whole <= 1_229)
        turns = sum(len(part) for name, part in parts.items() if name.startswith("turn:"))
        texts = sum(len(turn.prompt) + len(turn.response or "") for turn in chat)
        row("beside it: turns with texts and verdicts; their texts", f"{turns:,}; {texts:,}", "")
        store = SqliteStateStore(f"{folder}/guard.db")
        config = {"guardrails": [{"drift": {"observer": f"scripted:{','.join(['0.1'] * 500)}"}}]}
        writer, medians = GuardrailPipeline(config, state_store=store), {}
        for count in (10, 100, 400):
            chat = Conversation.human_ai("user", "model", conversation_id=str(count))
            for _ in range(count):
                writer.check_input(MESSAGE, conversation=chat)
                writer.check_output("It usually takes four working days.", conversation=chat)
            reader, seconds = GuardrailPipeline(config, state_store=store), []
            for _ in range(15):
                start = time.process_time()
                loaded = reader.load_conversation(str(count))
                assert loaded is not None
                reader.check_input(MESSAGE, conversation=loaded)
                seconds.append(time.process_time() - start)
            medians[count] = 1e3 * statistics.median(seconds)
            row(f"load a conversation of {count:,} turns and check, median CPU ms", f"{medians[count]:.2f}", "")
        ratio = max(medians.values()) / min(medians.values())
        row("slowest of these medians over the fastest", f"{ratio:.2f}", "<= 1.5", ratio <= 1.5)


def hostile(presets: tuple[str, ...]) -> None:
    """Measure hostile input in every preset."""
    for name in presets:
        for whole in (False, True):
            pipeline = GuardrailPipeline.from_preset(name) if whole else without_observer(name)
            pipeline.check_input("hello")
            worst, which = 0.0, ""
            for what, text in HOSTILE.items():
                start = time.perf_counter()
                pipeline.check_input(text)
                seconds = time.perf_counter() - start
                worst, which = max((worst, which), (seconds, what))
            limit = 12.0 if whole else 0.05
            who = "as it is" if whole else "guard itself"
            row(
                f"100,000 hostile characters, {name}, {who}, ms ({which})",
                f"{1e3 * worst:.1f}",
                f"<= {1e3 * limit:,.0f}",
                worst <= limit,
            )


async def _rounds(pipeline: GuardrailPipeline, conversations: int, checks: int) -> float:
    async def talk() -> None:
        conversation = Conversation.human_ai("user", "model")
        for number in range(checks):
            await pipeline.acheck_input(MESSAGES[number % len(MESSAGES)], conversation=conversation)
            await asyncio.sleep(0)

    start = time.perf_counter()
    await asyncio.gather(*(talk() for _ in range(conversations)))
    return conversations * checks / (time.perf_counter() - start)


def concurrency() -> None:
    """Measure the throughput of concurrent async conversations."""
    pipeline = without_observer(PRESET)
    asyncio.run(_rounds(pipeline, 1, 200))
    ratios, rates = [], []
    for _ in range(7):
        one = asyncio.run(_rounds(pipeline, 1, 640))
        many = asyncio.run(_rounds(pipeline, 16, 40))
        ratios.append(many / one)
        rates.append(many)
    ratio = statistics.median(ratios)
    row("checks/s of 16 async conversations, one thread", f"{statistics.median(rates):,.0f}", "")
    row("the same over those of one conversation (median of 7)", f"{ratio:.2f}", ">= 0.95", ratio >= 0.95)


def threads() -> None:
    """Count verdicts on the wrong turn and prompts beyond a limit, under 8 threads."""
    pipeline = without_observer(PRESET)
    conversation = Conversation.human_ai("user", "model")

    def work(number: int) -> int:
        wrong = 0
        for step in range(20):
            bad = (number + step) % 3 == 0
            text = f"{number} {step}: " + ("my card is 4111 1111 1111 1111" if bad else "hello")
            asked = pipeline.check_input(text, conversation=conversation)
            kept = conversation.turn(asked.turn_number or 0).metadata["guardrail_results"]["input"]
            wrong += bool(kept["details"]["pii"]["found"]) != bad
            wrong += kept["details"]["drift"]["data"]["turn"] != asked.turn_number
            told = pipeline.check_output("fine", conversation=conversation, turn_number=asked.turn_number)
            wrong += told.turn_number != asked.turn_number
        return wrong

    with ThreadPoolExecutor(8) as pool:
        wrong = sum(pool.map(work, range(8)))
    row("8 threads, 320 checks: verdicts on a wrong turn", str(wrong), "0", wrong == 0)
    off = 0
    for _ in range(100):
        limited = Conversation.human_ai("user", "model", rate_limit={"turns_per_hour": 20})

        def ask(_: int, limited: Conversation = limited) -> int:
            return sum(not pipeline.check_input("hello", conversation=limited).rate_limited for _ in range(5))

        with ThreadPoolExecutor(8) as pool:
            off += sum(pool.map(ask, range(8))) != 20
    row("8 threads, a limit of 20: tries that admitted other than 20", f"{off} of 100", "0", off == 0)


def chats(path: Path, label: str) -> list[list[str]]:
    """Return the user turns of the conversations of a label."""
    found = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            said = [
                turn["content"] for turn in record["turns"] if turn["role"] == "user" and turn["content"].strip()
            ]
            if record["label"] == label and said:
                found.append(said)
    return found


def chains(pool: list[list[str]], count: int, turns: int, seed: int) -> Iterator[list[str]]:
    """Yield conversations of so many turns, each made of benign ones in random order."""
    rng = random.Random(seed)
    for _ in range(count):
        said: list[str] = []
        while len(said) < turns:
            said += rng.choice(pool)
        yield said[:turns]


def drift(data: Path, count: int) -> None:
    """Measure false blocks of drift over long harmless talk, and what becomes of attacks."""
    pool = [said for name in BENIGN for said in chats(data / "dev" / f"{name}.jsonl", "benign")]
    pipeline = GuardrailPipeline.from_preset(PRESET)
    blocks = warned = checked = with_block = 0
    for place, said in enumerate(chains(pool, count, CHAIN, seed=1)):
        conversation = Conversation.human_ai("user", "model")
        before = blocks
        for text in said:
            detail = pipeline.check_input(text, conversation=conversation).details["drift"]
            blocks += detail.blocked
            warned += detail.warned
            checked += 1
        with_block += blocks > before
        if place == 0:
            row(f"{CHAIN} turns of benign chat: blocks by drift", str(blocks), "0", blocks == 0)
    low, high = clopper_pearson(with_block, count)
    row(f"{count} such conversations: with a block", f"{with_block} [{low:.3f}, {high:.3f}]", "")
    row("the same: turns blocked, and warned of", f"{blocks} and {warned} of {checked:,}", "")
    flagged = sum(
        any(pipeline.check_input(text, conversation=chat).details["drift"].blocked for text in said)
        for said, chat in ((said, Conversation.human_ai("user", "model")) for said in pool)
    )
    low, high = clopper_pearson(flagged, len(pool))
    row(
        f"{len(pool):,} benign conversations: with a block",
        f"{flagged / len(pool):.4f} [{low:.4f}, {high:.4f}]",
        "",
    )
    attacks = {
        "Attack_600": chats(data / "dev/safemt_attack600.jsonl", "attack"),
        "automated transcripts": chats(data / "dev/auto_mt_transcripts.jsonl", "attack"),
    }
    rng = random.Random(2)
    after = [0] * 10
    seen = 0
    for name, said in attacks.items():
        caught = 0
        for texts in said:
            conversation = Conversation.human_ai("user", "model")
            hit = any(
                pipeline.check_input(text, conversation=conversation).details["drift"].blocked for text in texts
            )
            caught += hit
            if hit:
                seen += 1
                tail = (text for texts in iter(lambda: rng.choice(pool), None) for text in texts)
                for place in range(10):
                    detail = pipeline.check_input(next(tail), conversation=conversation).details["drift"]
                    after[place] += detail.blocked
        low, high = clopper_pearson(caught, len(said))
        row(f"{name}: attacks with a block", f"{caught / len(said):.3f} [{low:.3f}, {high:.3f}]", "")
    shares = " ".join(f"{count / max(seen, 1):.2f}" for count in after)
    row("harmless turns 1 to 10 after an attack: share blocked", "", "")
    row("  " + shares, "", "", None)


def streams(lengths: tuple[int, ...] = (2_500, 20_000)) -> None:
    """Print what a token of a response costs that comes in pieces, and how much of the text is held back."""
    pipeline = GuardrailPipeline(
        {"guardrails": [{"secrets": {"action": "redact"}}, {"pii": {"action": "redact"}}]}
    )
    words = [f" {word}" for message in MESSAGES for word in message.split()]
    costs = []
    for length in lengths:
        stream, came, shown, held = pipeline.stream_output(), 0, 0, 0
        start = time.perf_counter()
        for number in range(length):
            word = words[number % len(words)]
            shown += len(stream.feed(word))
            came += len(word)
            held = max(held, came - shown)
        costs.append((time.perf_counter() - start) / length)
        start = time.perf_counter()
        stream.end()
        end = time.perf_counter() - start
        measured = f"{costs[-1] * 1e6:.0f} us, {held}, {end * 1e3:.0f} ms"
        row(f"stream of {length} tokens: a token, characters held back, end", measured, "")
    grows = costs[-1] / costs[0]
    row(f"a token of {lengths[-1]} against one of {lengths[0]}", f"{grows:.2f}", "<= 1.2", grows <= 1.2)


def main() -> None:
    """Measure everything that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with the benign chats and attacks")
    parser.add_argument("--chains", type=int, default=20, help=f"conversations of {CHAIN} harmless turns")
    parser.add_argument("--turns", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--state", action="store_true", help="measure what a state store keeps, and nothing else")
    options = parser.parse_args()
    if options.state:
        state()
        return
    counts = tokens()
    print(f"messages of {min(counts)} to {max(counts)} tokens")
    speed(tuple(options.turns))
    memory()
    streams()
    state()
    hostile(GuardrailPipeline.available_presets())
    concurrency()
    threads()
    if options.data:
        drift(options.data, options.chains)


if __name__ == "__main__":
    main()
