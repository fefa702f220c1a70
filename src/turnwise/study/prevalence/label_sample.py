"""A stratified sample of a scan's conversations for people to label: drawn, written and read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from turnwise._support.bounded import read_json
from turnwise._support.locations import Location, filesystem
from turnwise._support.notebook import Shown
from turnwise._support.table_files import file_name, quoted
from turnwise.conversation import Conversation, Label
from turnwise.conversation import Sequence as Chat
from turnwise.datasets import to_line
from turnwise.errors import FindingsError, UsageError
from turnwise.findings import SEQUENCES, TURNS, Findings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TEXTS: Final = "label-sample.jsonl"
"""The conversations in the folder of findings: turnwise JSONL without label, score or stratum, in random order."""

DESIGN: Final = "label-sample.json"
"""Beside them: strata, their sizes, and which conversation was drawn from which."""

LAYOUT: Final = 1

CLEAR, NARROW, MISSED, REST = "flagged, clearly", "flagged, narrowly", "just not flagged", "far from flagged"

SHARES: Final[Mapping[str, float]] = {CLEAR: 0.2, NARROW: 0.2, MISSED: 0.2, REST: 0.4}
"""Share of the sample that comes from each stratum. Most goes where most conversations are: what they hold decides
recall."""

NEAR: Final = 0.01
"""Share of the conversations without a flag that count as near the threshold, at least; as many as were flagged,
where these are more."""


_CHOOSE: Final = """
    SELECT md5($seed || ':order:' || key), key, sequence, file, row FROM sequences
    WHERE {} ORDER BY md5($seed || ':' || key), key LIMIT $drawn
"""
"""Chooses conversations of a stratum. Put in order by the hash that chooses, small strata would stand last."""


@dataclass(frozen=True, slots=True)
class SampledStratum:
    """Conversations that were sampled alike.

    Args:
        name: what they share.
        flagged: whether the detector flagged them.
        population: how many there are.
        drawn: how many of them are in the sample.
        weight: how many conversations each drawn one stands for.
    """

    name: str
    flagged: bool
    population: int
    drawn: int
    weight: float


@dataclass(frozen=True, slots=True)
class Drawn:
    """A conversation of the sample.

    Args:
        id: its id in the sample: that of the conversation, followed by its key where several have the same.
        key: its key in the findings.
        stratum: name of its stratum.
        file: the input file that it stood in.
        row: its row in that file.
    """

    id: str
    key: int
    stratum: str
    file: str
    row: int


@dataclass(frozen=True, slots=True)
class LabelSample(Shown):
    """A stratified random sample of the scored conversations of a scan.

    Args:
        seed: of the draw.
        wanted: conversations that were asked for.
        scored: conversations that it was drawn from.
        fired: how many of these were flagged.
        strata: the strata, each with a conversation at least.
        conversations: what was drawn, in random order.
        layout: version of this record.
    """

    seed: int
    wanted: int
    scored: int
    fired: int
    strata: tuple[SampledStratum, ...]
    conversations: tuple[Drawn, ...]
    layout: int = LAYOUT


def draw_label_sample(findings: Findings, wanted: int, seed: int = 0) -> LabelSample:
    """Draw a sample: from those flagged clearly and narrowly, those just not flagged, and all others.

    Flagged conversations are divided at the median of their highest detector score; just not flagged are those
    with the highest scores among the others. The same findings, number and seed give the same sample on every
    machine.

    Args:
        findings: of a complete scan.
        wanted: conversations, at least one for each stratum; all are drawn where there are no more.
        seed: of the draw.

    Raises:
        UsageError: the scan is not complete, scored nothing, or `wanted` is too small.
        FindingsError: the findings can't be read.
    """
    if not findings.manifest.complete:
        raise UsageError(f"the scan in {findings.folder} is not complete: finish it, then draw a sample")
    with _tables(findings, SEQUENCES) as connection:
        conditions = _strata(connection)
        if not conditions:
            raise UsageError(f"the scan in {findings.folder} scored no conversation: there is nothing to label")
        sizes = {name: size for name, (_, size) in conditions.items()}
        counts = allocate(wanted, sizes)
        strata = tuple(
            SampledStratum(name, name in (CLEAR, NARROW), size, counts[name], size / counts[name])
            for name, size in sizes.items()
        )
        rows = [
            (order, key, name, sequence, file, row)
            for name, (condition, _) in conditions.items()
            for order, key, sequence, file, row in connection.execute(
                _CHOOSE.format(condition), {"seed": str(seed), "drawn": counts[name]}
            ).fetchall()
        ]
    taken: dict[str, int] = {}
    for _, _, _, sequence, _, _ in rows:
        taken[sequence] = taken.get(sequence, 0) + 1
    conversations = tuple(
        Drawn(sequence if taken[sequence] == 1 else f"{sequence}#{key}", key, name, file, row)
        for _, key, name, sequence, file, row in sorted(rows)
    )
    fired = sum(one.population for one in strata if one.flagged)
    return LabelSample(seed, wanted, sum(sizes.values()), fired, strata, conversations)


def _strata(connection: DuckDBPyConnection) -> dict[str, tuple[str, int]]:
    """By name of each stratum that has conversations, the condition that chooses them, and how many there are."""

    def count(condition: str) -> int:
        found = connection.execute(f"SELECT count(*) FROM sequences WHERE {condition}").fetchone()
        return 0 if found is None else int(found[0])

    flagged, others = "scored AND fired", "scored AND NOT fired"
    connection.execute(f"SET VARIABLE middle = (SELECT quantile_disc(peak, 0.5) FROM sequences WHERE {flagged})")
    half = count(others) // 2
    near = min(max(count(flagged), math.ceil(NEAR * count(others))), half)
    connection.execute(
        "SET VARIABLE least = "
        f"(SELECT peak FROM sequences WHERE {others} AND peak IS NOT NULL ORDER BY peak DESC LIMIT 1 OFFSET ?)",
        [max(near - 1, 0)],
    )
    high = "coalesce(peak >= getvariable('least'), false)"
    if not near or count(f"{others} AND {high}") > half:
        high = "false"  # too few, or so many with the same score that it tells nothing
    clear = "coalesce(peak > getvariable('middle'), false)"
    conditions = {
        CLEAR: f"{flagged} AND {clear}",
        NARROW: f"{flagged} AND NOT {clear}",
        MISSED: f"{others} AND {high}",
        REST: f"{others} AND NOT {high}",
    }
    sizes = {name: count(condition) for name, condition in conditions.items()}
    return {name: (condition, sizes[name]) for name, condition in conditions.items() if sizes[name]}


def allocate(wanted: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return how many conversations are drawn from each stratum: by `SHARES`, and never more than there are.

    Args:
        wanted: conversations in all, at least one for each stratum.
        sizes: conversations of each stratum, at least 1 each.

    Raises:
        UsageError: fewer are wanted than there are strata.

    >>> allocate(100, {CLEAR: 5, NARROW: 5, MISSED: 50, REST: 9_940})
    {'flagged, clearly': 5, 'flagged, narrowly': 5, 'just not flagged': 30, 'far from flagged': 60}
    """
    if wanted < len(sizes):
        raise UsageError(f"a sample of {wanted} is too small: there are {len(sizes)} strata, and each needs one")
    counts: dict[str, int] = {}
    left, open_ = wanted, dict(sizes)
    while open_:
        whole = sum(SHARES[name] for name in open_)
        full = {name: size for name, size in open_.items() if size <= left * SHARES[name] / whole}
        if not full:
            break
        counts |= full
        left -= sum(full.values())
        open_ = {name: size for name, size in open_.items() if name not in full}
    if open_:
        counts |= _rounded(left, list(open_))
    return {name: counts[name] for name in sizes}


def _rounded(left: int, names: Sequence[str]) -> dict[str, int]:
    """Whole numbers that add up to `left`, by `SHARES`, at least 1 each."""
    whole = sum(SHARES[name] for name in names)
    quotas = {name: left * SHARES[name] / whole for name in names}
    counts = {name: max(1, math.floor(quota)) for name, quota in quotas.items()}
    for name in sorted(names, key=lambda name: counts[name] - quotas[name])[: max(0, left - sum(counts.values()))]:
        counts[name] += 1
    while sum(counts.values()) > left:
        counts[max(counts, key=lambda name: counts[name])] -= 1
    return counts


def write_label_sample(findings: Findings, wanted: int, seed: int = 0) -> LabelSample:
    """Draw a sample and write it into the folder of findings: `TEXTS` for people to label, and `DESIGN`.

    The texts bear no label, score or stratum: who labels them does not know what the detector said. ``turnwise
    import`` reads the texts, and `turnwise.study.prevalence.from_labels` the labels.

    Args:
        findings: of a complete scan that kept its texts.
        wanted: conversations; see `draw_label_sample`.
        seed: of the draw.

    Raises:
        UsageError: as for `draw_label_sample`; another sample is there already; or the scan kept no texts.
        FindingsError: the findings can't be read.
        LocationError: the files can't be written.
    """
    if not findings.files(TURNS):
        raise UsageError(
            f"the findings in {findings.folder} hold no texts, so nobody could label them: scan without --no-texts"
        )
    sample = draw_label_sample(findings, wanted, seed)
    design, content = findings.folder / DESIGN, _design(sample)
    if design.exists() and design.read() != content:
        raise UsageError(
            f"{findings.folder} holds another label sample, for which somebody may have given labels: remove "
            f"{design} to draw one of {wanted} with seed {seed}"
        )
    (findings.folder / TEXTS).write(_texts(findings, sample))
    design.write(content)
    return sample


def _design(sample: LabelSample) -> bytes:
    return (json.dumps(asdict(sample), indent=1, ensure_ascii=False) + "\n").encode(errors="replace")


def _texts(findings: Findings, sample: LabelSample) -> bytes:
    turns: dict[int, list[tuple[str, str | None]]] = {}
    with _tables(findings, SEQUENCES, TURNS) as connection:
        keys = {"keys": [one.key for one in sample.conversations]}
        chosen = "key IN (SELECT unnest($keys::BIGINT[]))"
        rows = connection.execute(
            f"SELECT key, prompt, response FROM turns WHERE {chosen} ORDER BY key, turn", keys
        )
        for key, prompt, response in rows.fetchall():
            turns.setdefault(key, []).append((prompt or "", response))
        sources = dict(connection.execute(f"SELECT key, source FROM sequences WHERE {chosen}", keys).fetchall())
    lines = []
    for one in sample.conversations:
        if one.key not in turns:
            raise FindingsError(f"{findings.folder} has no texts of conversation {one.id!r}: restore a copy")
        chat = Conversation.from_turns(turns[one.key], conversation_id=one.id)
        line = to_line(Chat(one.id, Label.UNLABELLED, sources[one.key], chat, {"file": one.file, "row": one.row}))
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(lines).encode(errors="replace")


def read_label_sample(findings: Findings) -> LabelSample:
    """Return the sample that was written into the folder of findings.

    Raises:
        UsageError: there is none.
        FindingsError: it is damaged, or one of other findings.
    """
    place: Location = findings.folder / DESIGN
    if not place.exists():
        raise UsageError(
            f"{findings.folder} holds no label sample: turnwise study prevalence {findings.folder} --label-sample "
            "200 draws one"
        )
    try:
        value = read_json(place.read())
        if value["layout"] != LAYOUT:
            raise FindingsError(f"{place} has layout {value['layout']!r}, not {LAYOUT}: use its turnwise")
        value["strata"] = tuple(SampledStratum(**one) for one in value["strata"])
        value["conversations"] = tuple(Drawn(**one) for one in value["conversations"])
        sample = LabelSample(**value)
    except (ValueError, TypeError, KeyError) as error:
        raise FindingsError(f"{place} is no label sample, or damaged: {type(error).__name__}: {error}") from error
    totals = findings.manifest.totals
    if (sample.scored, sample.fired) != (totals.scored, totals.fired):
        raise FindingsError(
            f"{place} was drawn from {sample.scored:,} conversations, {sample.fired:,} of them flagged, and the "
            f"findings have {totals.scored:,} and {totals.fired:,}: use the findings that it was drawn from"
        )
    return sample


@contextmanager
def _tables(findings: Findings, *tables: str) -> Iterator[DuckDBPyConnection]:
    """Give a DuckDB connection in which tables of findings, as far as parts are done, are views by their names."""
    import duckdb

    findings.check(*tables)
    with duckdb.connect() as connection:
        try:
            of_tables = {table: findings.files(table) for table in tables}
            places = [file.name for files in of_tables.values() for file in files if file.is_url]
            for protocol in sorted({place.partition("://")[0] for place in places}):
                connection.register_filesystem(filesystem(protocol))
            for table, files in of_tables.items():
                if not files:
                    raise FindingsError(f"{findings.folder} holds no {table}: finish a part of the scan first")
                names = ", ".join(quoted(file_name(file.name)) for file in files)
                connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet([{names}])")
            yield connection
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise FindingsError(f"can't read the findings in {findings.folder}: {reason}") from error
