"""The public API as its users type it; checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from openai import AsyncOpenAI, OpenAI

from turnwise import (
    Conversation,
    Evaluation,
    GuardrailPipeline,
    PipelineResult,
    Report,
    Score,
    Side,
    Trajectory,
    Turn,
    analyze_conversation_forensics,
    balance,
    check,
    trust_strength,
)
from turnwise import patterns as language
from turnwise.conversation import (
    Label,
    ToolCall,
    ToolResult,
    from_any,
    from_messages,
    from_sharegpt,
    to_sharegpt,
)
from turnwise.datasets import (
    BadRecord,
    JudgedConversation,
    Judgement,
    check_loader,
    get_loader,
    join_judgements,
    judgement_files,
    open_dataset,
    read_judgements,
)
from turnwise.detectors import (
    DETECTORS,
    Detector,
    DetectorFactory,
    DetectorInfo,
    NamedDetector,
    Verdict,
    build_detector,
    describe_detectors,
    detector_names,
    format_spec,
    load_detector,
    name_detector,
    run_detector,
    to_mapping,
)
from turnwise.findings import SCORES, open_findings
from turnwise.forensics import forensics_page
from turnwise.guard import (
    CLEAN,
    Action,
    AsyncOutputStream,
    Check,
    Cost,
    Detail,
    Finding,
    Forgotten,
    Guardrail,
    GuardrailBlocked,
    GuardrailInfo,
    GuardrailStatus,
    GuardSession,
    On,
    OnError,
    OutputStream,
    Redaction,
    RedisStateStore,
    SqliteStateStore,
    StateStatus,
    Step,
    TextKind,
    check_state_store,
    describe_guardrails,
    guardrail,
    guardrail_names,
    open_state_store,
)
from turnwise.guard.audit import AuditAnswer, AuditQuestion, AuditSink, AuditStatus, read_audit
from turnwise.integrations.openai import GuardedAsyncOpenAI, GuardedOpenAI
from turnwise.integrations.openai import guard as guard_openai
from turnwise.observers import (
    OBSERVERS,
    BoundsRequests,
    CanStop,
    Context,
    CostEstimator,
    Estimate,
    KeepsReplies,
    NotRead,
    Observation,
    ObservationFailure,
    Observer,
    ObserverInfo,
    ObserverSession,
    Setting,
    Workers,
    build_cost_estimator,
    build_live_observer,
    build_observer,
    check_observer,
    describe_observer,
    list_observers,
    observer_settings,
    read_settings,
)
from turnwise.observers.llm import (
    ChatClient,
    ChatError,
    ChatReply,
    ChatRequest,
    Endpoint,
    FaultKind,
    LlmObserver,
    LlmSettings,
    LlmState,
    Message,
    Price,
    PriceTable,
    Provider,
    ScriptedClient,
    estimate,
    fresh_nonce,
    prices,
    prompt_version,
    providers,
    render,
    resolve,
)
from turnwise.patterns import (
    Evaluator,
    Expression,
    Library,
    NamedPattern,
    PatternMatch,
    PatternValue,
    Stream,
    ValueKind,
    default_library,
    load_patterns,
    match,
    named,
    parse,
    parse_expression,
    series,
    shipped_patterns,
)
from turnwise.principles import Principle, builtin_principles, load_principle
from turnwise.rates import Rate
from turnwise.runs import (
    Detection,
    Plan,
    ProcessEngine,
    Progress,
    ReadOptions,
    ScanResult,
    Summary,
    count_missing,
    detect,
    evaluate,
    plan_scan,
    tasks_of,
)
from turnwise.scoring import MemoryJournal, TurnScores
from turnwise.serve import ApiKeys, ServeSettings, create_app
from turnwise.sessions import (
    DEFAULT_PRESET,
    SESSION,
    BoundarySettings,
    BreakerCounts,
    BreakerSettings,
    BreakerState,
    EngagementMode,
    Evicted,
    ExchangeCounts,
    Friction,
    MemoryStateStore,
    Phase,
    PresetInfo,
    SessionMemory,
    Sessions,
    SessionSettings,
    SessionState,
    SessionTrajectory,
    Stance,
    StateStore,
    TrajectorySettings,
    TrustLevel,
    assess,
    boundary_testing,
    direction,
    friction,
    is_refusal,
    next_breaker,
    preset,
    presets,
)
from turnwise.store import (
    Added,
    HumanScore,
    Imported,
    Journal,
    KeptReplies,
    LabelCorrection,
    QueryResult,
    Run,
    RunTally,
    ScoreTable,
    SequenceHead,
    Store,
    StoredScore,
    import_sequences,
)
from turnwise.study import (
    FITTED,
    Agreement,
    Example,
    Loaded,
    Tuned,
    agreement,
    fit_detector,
    holm,
    load_examples,
    needed_benign,
    split_by_group,
    threshold_for,
    tune,
)
from turnwise.study.annotation import PROVENANCE, Kit, TakenIn, hand_out, take_in
from turnwise.study.compare import Settings, Study, compare
from turnwise.study.discovery import Discovery, HalfSize, Tested, discover, halves_of, names_of, to_yaml
from turnwise.study.report import all_tables, as_csv, as_latex, as_markdown, record, summary, write_report


def conversation() -> Conversation:
    chat: Conversation = Conversation.human_ai("user_123", "some-model")
    turn: Turn = chat.add_prompt("Hello")
    number: int = turn.number
    chat.add_response("Hi", turn_number=number)
    same: Conversation = from_any(chat.to_dict())
    history: Sequence[Turn] = same.get_history(limit=1)
    messages: list[dict[str, object]] = chat.to_messages()
    assert history and messages
    assert from_messages(chat.to_messages()) and from_sharegpt(to_sharegpt(chat))
    return chat


def scoring(score: Score) -> tuple[float, float]:
    return balance(score, 100), trust_strength(score, 100)


def detectors() -> str:
    names: tuple[str, ...] = detector_names()
    infos: tuple[DetectorInfo, ...] = describe_detectors()
    factory: DetectorFactory = DETECTORS.get(names[0])
    mapping: dict[str, object] = to_mapping(factory())
    read: Detector = load_detector("mine.yaml").with_threshold(0.5)
    assert infos[0].parameters or mapping
    return format_spec(read)


def observers(observer: Observer) -> tuple[ObserverInfo, ...]:
    if isinstance(observer, KeepsReplies):
        observer = observer.with_journal(MemoryJournal())
    if isinstance(observer, BoundsRequests):
        observer.bound_requests(4)
    if isinstance(observer, CanStop):
        observer.stop("enough")
    workers: Workers = OBSERVERS.get("local").describe().workers
    assert workers
    return list_observers()


def model(principle: Principle, chat: Conversation) -> LlmObserver:
    endpoint: Endpoint = resolve("openai/some-model", LlmSettings(repeats=3))
    known: Mapping[str, Provider] = providers()
    table: PriceTable = prices()
    price: Price | None = endpoint.price
    messages: tuple[Message, ...] = render(
        principle, list(chat), 1, Side.PROMPT, Context.parse("history"), fresh_nonce(["a text"])
    )
    cost: Estimate = estimate(messages, price, max_tokens=100)

    def answer(request: ChatRequest) -> ChatReply:
        if not request.messages:
            raise ChatError(FaultKind.SERVER, "busy", retry_after=1.0)
        return ChatReply("{}", request.model)

    client: ChatClient = ScriptedClient(answer)
    costs: CostEstimator = build_cost_estimator("llm:openai/some-model", repeats=2)
    settings: Mapping[str, Setting] = observer_settings("local")
    session = ObserverSession(build_observer("local", cache_bytes=1), Context.parse("turn"), "chat-1")
    given: Sequence[Observation | ObservationFailure | NotRead] = session.observe(chat.turn(1)).given
    assert costs.price_as_of and settings and given and describe_observer("local").principles
    build_live_observer("local", **read_settings("local", ["cache_bytes=1"]))
    check_observer(lambda: build_observer("scripted:0.1"))
    observer = LlmObserver("openai/some-model", endpoint.settings, client=client, journal=MemoryJournal())
    state: LlmState = observer.start("chat-1", Context.parse("turn"))
    assert prompt_version(principle) and known and table and cost.cost_usd is None and state.turns
    return observer


def patterns(turns: Sequence[TurnScores]) -> PatternMatch:
    F: Expression = series("reciprocity").F
    rising: Expression = (language.slope(F, window=5) > 0.1) | (language.streak(F > 0.5) >= 3)
    rising &= language.any_(F > 0.2) & ~language.all_(series(side=Side.RESPONSE).I > 0.5)
    rising &= language.k_of(1, language.chars() > 100, language.turn() >= 2)
    numbers: tuple[Expression, ...] = (
        *(language.first(F), language.last(F), language.peak(F), language.low(F), language.mean(F)),
        *(language.at(F, 1), language.rise(F, 1, 5), language.delta(F), language.drop(F), language.volatility(F)),
        *(language.ema(F, alpha=0.3, start=0.5), language.cusum(F, drift=0.05)),
        *(language.count(F > 0.5), language.current_streak(F > 0.5), language.share(F > 0.5)),
        language.turns_since(F > 0.5),
    )
    text: str = str(parse(str(rising), principles=["reciprocity"]))
    kind: ValueKind = parse_expression(text).kind
    library: Library = load_patterns("mine.yaml", behind=default_library())
    known: tuple[NamedPattern, ...] = shipped_patterns()
    stream: Stream = Stream(named("gradual_drift", patterns=library, limit=0.2))
    value: PatternValue = stream.update(turns[0])
    values: tuple[PatternValue, ...] = Evaluator(rising).run(turns)
    assert kind is ValueKind.CONDITION and known and numbers and value.holds and values
    return match(rising, turns)


def sessions(turn: TurnScores) -> Stance:
    settings: SessionSettings = preset(DEFAULT_PRESET)
    infos: tuple[PresetInfo, ...] = presets()
    mine = SessionSettings(
        boundary=BoundarySettings(breakers=2),
        trajectory=TrajectorySettings(min_turns=4),
        breaker=BreakerSettings(attempts=1),
    )

    def evicted(session: Evicted) -> None:
        assert session.remembered and session.key

    store: StateStore = MemoryStateStore(limit=10, on_evict=evicted)
    live = Sessions(store, lambda: datetime.now(UTC), SessionMemory(mine))
    stance: Stance = live.take("user-1", turn, response="No.", conversation_id="chat-1")
    state: SessionState | None = store.get(SESSION, "user-1")
    assert state is not None and infos
    breakers: BreakerCounts = state.breakers
    exchanges: ExchangeCounts = state.exchanges
    next_state: BreakerState = next_breaker(state.breaker, 0.1, violation=is_refusal("No."))
    reasons: tuple[str, ...] = boundary_testing(state, settings.boundary)
    whither: SessionTrajectory = direction(state, settings.trajectory)
    heat: Friction = friction(state.balances)
    phase: Phase = next_state.phase
    mode: EngagementMode = stance.mode
    level: TrustLevel = stance.trust_level
    assert breakers and exchanges and reasons and whither and heat and phase and mode and level
    return assess(state, settings, restarted=True)


def state(folder: Path) -> Forgotten:
    check_state_store(MemoryStateStore)
    with SqliteStateStore(folder / "guard.db", limit=1_000) as store:
        pipeline = GuardrailPipeline({"guardrails": ["drift"]}, state_store=store)
        chat: Conversation = pipeline.load_conversation("c1")
        maybe: Conversation | None = pipeline.find_conversation("c1")
        session: GuardSession = pipeline.session("user-1")
        trust: float | None = session.trust
        phase: Phase | None = session.breaker
        stance: Stance | None = session.release()
        status: StateStatus | None = pipeline.state_status(ask=True)
        assert chat or maybe or trust or phase or stance or status or session.reset()
        return pipeline.forget("user-1")


def shared_state(folder: Path) -> StateStore:
    either: RedisStateStore | SqliteStateStore = open_state_store(str(folder / "guard.db"), limit=1_000)
    either.close()
    return RedisStateStore("redis://cache.example", prefix="guard:", must_answer=False)


def said_of(store: Store) -> dict[str, Label | None]:
    said: LabelCorrection = store.people.correct_label("a", "benign", "ann", "a lesson")
    marked: LabelCorrection = store.people.mark_turn("a", 3, "ann")
    versions = {"reciprocity": "1+abc"}
    given: tuple[HumanScore, ...] = store.people.judge(
        "a", 1, {"reciprocity": Score(0.5, 0.1, 0.2)}, "ann", versions=versions
    )
    agreed: tuple[Agreement, ...] = agreement(given, (said, marked), {"a": 3})
    assert agreed and store.people.authors()
    kit: Kit = hand_out(store, "kit", ["ann", "ben"], mode="label", twice=0.5, seed=1)
    taken: TakenIn = take_in(store, "kit", out="sets", provenance=dict.fromkeys(PROVENANCE, "told"))
    assert kit.sheets["ann"] and taken.truth
    return store.people.labels(["ann"])


def record_of(store: Store) -> tuple[Run, RunTally]:
    heads: Iterator[SequenceHead] = store.heads(label=Label.BENIGN)
    groups: dict[str, str] = store.groups(ids=[head.sequence_id for head in heads])
    journal: Journal = store.journal
    kept: tuple[KeptReplies, ...] = journal.stats()
    found: QueryResult = store.query("slope(F) > 0.1", "first", when="final", label=Label.ATTACK)
    plan = Plan(builtin_principles(), Context.parse("history"), only=store.failed("first"))
    lacking: int = count_missing(store, "first", plan)
    assert groups and kept and found.rates and lacking and list(tasks_of(store, "first", plan))
    table: ScoreTable = store.scores("first", label=Label.ATTACK)
    row: StoredScore = next(iter(table))
    renamed: Run = store.rename_run("first", "second")
    deleted: RunTally = store.delete_run(renamed.name)
    told: str | None = store.note
    store.prepare(lambda scores: None)
    assert store.is_findings and told and found.first(3)
    assert row.F and table.to_dict() and deleted.to_dict()
    return store.tallies()[0]


def study(store: Store, folder: Path) -> Study:
    loaded: Loaded = load_examples(store, "first")
    examples: tuple[Example, ...] = loaded.examples
    parts: dict[str, list[Example]] = split_by_group(examples, {"train": 0.5, "test": 0.5}, seed=1)
    fitted: Detector = fit_detector(next(iter(FITTED)), parts["train"])
    tuned: Tuned = tune("cusum", examples, target_fpr=0.05)
    flagged: Rate = tuned.flagged_benign
    limits: tuple[float, float] = threshold_for([0.1, 0.2], 0.5), threshold_for([0.1] * 99, 0.05, 0.95)
    found: Discovery = discover(halves_of(examples, 0)[0], max_fpr=0.02)
    half: HalfSize = found.held_out
    named_patterns: dict[str, Tested] = names_of(found)
    asked = Settings(runs=("first", "second"), detectors=("cusum",), target_fpr=0.05)
    compared: Study = compare(store, asked)
    files: tuple[Path, ...] = write_report(compared, folder)
    for table in all_tables(compared):
        assert as_csv(table) and as_latex(table) and as_markdown(table)
    assert fitted and flagged and limits and half and named_patterns and files and holm([0.01, 0.2])
    assert needed_benign(0.01) and to_yaml(found, "first", "local") and record(compared) and summary(compared)
    return compared


def bench(folder: Path) -> None:
    check_loader(lambda: get_loader("turnwise"), folder / "chats.jsonl")
    principles: tuple[Principle, ...] = (*builtin_principles(), load_principle(str(folder / "mine")))
    with Store(folder / "work.db", create=True) as store:
        where: str = store.location
        assert where
        imported: Imported = import_sequences(
            store,
            open_dataset(
                "chats.jsonl",
                columns={"id": "uid"},
                label="benign",
                label_map={"rude": "attack"},
                role_map={"agent": "assistant"},
                encoding="cp1252",
            ),
            where="chats.jsonl",
            relabel=True,
        )
        before: Sequence[Label] = [one.stored for one in imported.relabelled]
        assert before
        added: list[Added] = store.add_sequences(store.sequences(), relabel=True)
        assert added
        errors: tuple[BadRecord, ...] = imported.errors
        progress: Callable[[Progress], None] = lambda reached: None  # noqa: E731 - the type of a callback
        done: Summary = evaluate(store, "first", "local", principles=principles, jobs=2, progress=progress)
        made: int = done.evaluations
        found: Iterator[Detection] = detect(store, "first", ["cusum"], corrected_by=["ann"])
        trajectory: Trajectory = store.trajectory("first", "chat-1")
        evaluations: tuple[Evaluation, ...] = trajectory.evaluations
        assert errors or made or found or evaluations


def live(chat: Conversation) -> Verdict:
    observer: Observer = build_observer("local")
    context = Context.parse("history")
    report: Report = check(chat, observer, ["cusum", Path("mine.yaml")], context=context)
    turns = report.turns
    named: NamedDetector = name_detector("cusum", observer.info.operating_points.get(str(context), {}))
    detector: Detector = named.detector
    assert Rate(0, 50).interval < (1.0, 1.0)
    return run_detector(build_detector("slope") if not turns else detector, turns)


@guardrail("typed_example")
class Shouting(Guardrail):
    cost = Cost.TEXT
    default_timeout = None

    def check(self, check: Check) -> Finding:
        if not check.text.isupper() or check.side is Side.RESPONSE:
            return CLEAN
        place = Redaction(0, len(check.text), "shouting")
        return Finding(True, "capitals", 0.9, (place,), Action.WARN, {"length": check.once("n", lambda: 1)})


async def guarded(chat: Conversation, sink: AuditSink | None) -> PipelineResult:
    with GuardrailPipeline({"guardrails": [Shouting()]}, audit=sink) as pipeline:
        asked: PipelineResult = pipeline.check_input("hello", conversation=chat, key="ann", role="paying")
        told = await pipeline.acheck_output("hi", conversation=chat, turn_number=asked.turn_number)
        details: Mapping[str, Detail] = told.details
        messages: list[str] = [*asked.reasons, *asked.warnings, *asked.failures]
        kept: AuditStatus | None = pipeline.audit_status
        steps: tuple[Step, ...] = pipeline.steps
        assert kept or messages or steps[0].on == (On.BOTH,) or steps[0].on_error is OnError.BLOCK
        assert details["shouting"].status is GuardrailStatus.EVALUATED
    call: PipelineResult = pipeline.check_tool_call("clock", {"zone": "UTC"}, conversation=chat, call_id="c1")
    gave = await pipeline.acheck_tool_result("noon", conversation=chat, call_id=call.call_id, name=call.tool)
    calls: tuple[ToolCall, ...] = chat.turn(1).tool_calls
    results: tuple[ToolResult, ...] = chat.turn(1).tool_results
    assert gave.pipeline_type is TextKind.TOOL_RESULT and calls and results
    return pipeline.check_messages([{"role": "user", "content": "hello"}])


def listed(pipeline: GuardrailPipeline, messages: list[dict[str, object]]) -> list[dict[str, object]]:
    asked: PipelineResult = pipeline.check_messages(messages, conversation_id="chat-7", session_id="ann")
    place: str | None = asked.place
    again: bool = pipeline.check_messages(messages, recognised=True, scope="tenant").recorded
    chat: Conversation | None = pipeline.conversation_of(asked)
    stream: OutputStream = pipeline.stream_messages(messages, after=place, conversation=chat)
    called: PipelineResult = stream.check_tool_call("clock", "{}", call_id="c1")
    assert again or called.blocked
    return pipeline.sendable(messages, asked)


async def listed_later(pipeline: GuardrailPipeline, messages: list[dict[str, object]]) -> str:
    async with await pipeline.astream_messages(messages, conversation_id="chat-7") as stream:
        return "".join([text async for text in stream.guard(["hello"])])


def doors(client: OpenAI, later: AsyncOpenAI, pipeline: GuardrailPipeline) -> str:
    app = create_app(pipeline, ServeSettings(keys=ApiKeys(["web:0123456789abcdef"]), rate=600))
    guarded: GuardedOpenAI = guard_openai(client, pipeline, refusal="No.")
    awaited: GuardedAsyncOpenAI = guard_openai(later, pipeline)
    guarded.responses.create(model="m", input="Hello", session_id="ann")
    try:
        reply = guarded.chat.completions.create(model="m", messages=[], conversation_id="chat-7")
    except GuardrailBlocked as blocked:
        result: PipelineResult = blocked.result
        return result.text
    assert awaited.unguarded is later
    return f"{app.title}{reply.choices[0].message.content}"


async def streamed(chat: Conversation, pipeline: GuardrailPipeline) -> str:
    pipeline.reload({"guardrails": [Shouting()]})
    pipeline.disable("shouting")
    stream: OutputStream = pipeline.stream_output(chat, turn_number=1)
    now: str = stream.feed("hello")
    ended: PipelineResult = stream.end()
    waits: float | None = ended.retry_after
    asynchronous: AsyncOutputStream = pipeline.astream_output(chat)
    async with asynchronous as opened:
        async for shown in opened.guard(["hello", None]):
            now += shown
    result: PipelineResult | None = opened.result
    speakers: tuple[str, str] = (chat.turn(1).speaker, chat.turn(1).listener)
    assert waits or result or speakers or chat.created_at or chat.last_activity
    return now + stream.rest


def looked_back(chat: Conversation, folder: Path) -> str:
    found: Mapping[str, object] = analyze_conversation_forensics(chat)
    known: tuple[GuardrailInfo, ...] = describe_guardrails()
    names: tuple[str, ...] = guardrail_names()
    presets: tuple[str, ...] = GuardrailPipeline.available_presets()
    answer: AuditAnswer = read_audit(folder / "audit.jsonl", AuditQuestion())
    assert known and names and presets and answer.events
    return forensics_page(chat, dict(found))


def recorded_judgements(folder: Path, file: str) -> Iterator[tuple[str, float]]:
    judgements: list[Judgement] = list(read_judgements(judgement_files(folder)["history"]))
    chats = (record for record in open_dataset(file) if not isinstance(record, BadRecord))
    judged: JudgedConversation
    for judged in join_judgements(chats, judgements):
        scores: Mapping[str, Score] = judged.judgements[0].scores
        yield judged.sequence.sequence_id, max(score.F for score in scores.values())


def in_frameworks(pipeline: GuardrailPipeline, chat: Conversation, prompts: Sequence[str]) -> list[str]:
    """Return ids of attacks; each module needs the extra of its name."""
    from agents import Agent
    from inspect_ai.dataset import Sample
    from langchain.agents import create_agent

    from turnwise.integrations.agents import AgentGuard
    from turnwise.integrations.inspect import EVALS, attacks, turnwise_detector
    from turnwise.integrations.langchain import GuardMiddleware
    from turnwise.integrations.opentelemetry import OpenTelemetryAudit

    create_agent("openai:gpt-4.1", middleware=[GuardMiddleware(pipeline, on_block="raise", stream=True)])
    guard = AgentGuard(pipeline, chat, refusal="No.", session_id="ann")
    guard.protect(Agent(name="desk"))
    audit: AuditSink = OpenTelemetryAudit(also="audit.jsonl", texts="redacted")
    GuardrailPipeline.from_preset("basic", audit=audit)
    turnwise_detector("any_turn", observer="local", context="history")
    found = attacks([Sample(input=prompt) for prompt in prompts], label=Label.BENIGN)
    return [*(one.sequence_id for one in found), *EVALS]


def scanned(folder: Path) -> tuple[str, float | None]:
    """Return where the findings of a scan are, and the threshold of its detector."""
    told: list[float] = []

    def tell(progress: Progress) -> None:
        told.append(progress.done / progress.total)

    result: ScanResult = plan_scan(
        [folder / "a.jsonl", "s3://bucket/*.parquet"],
        folder / "findings",
        read=ReadOptions(columns={"messages": "chat"}, role_map="agent=assistant", encoding="cp1252"),
        observer="local",
        detector="cusum",
        sides=[Side.PROMPT],
        where="turns >= 3",
        sample=1_000,
    ).run(ProcessEngine(2), tell)
    manifest = open_findings(str(folder / "findings")).manifest
    threshold: float | None = manifest.detector["threshold"]
    return str(result.findings.files(SCORES)[0]), threshold
