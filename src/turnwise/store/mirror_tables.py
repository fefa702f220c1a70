"""The tables and views of the mirror, as SQL. docs/sql.md says the same to a person."""

from __future__ import annotations

from collections.abc import Sequence

LISTS = "lists"
"""Database of the tables of trajectories, whose rows hold a conversation each and so come in small groups."""

MAKE_TABLES = (
    "SET python_enable_replacements = false",  # a name in a question is a table, never a variable of the program
    f"ATTACH ':memory:' AS {LISTS} (ROW_GROUP_SIZE 4096)",  # a group is what one thread takes at a time
    "SET temp_directory = ''",  # what does not fit into memory fails, rather than leave files behind
    "SET enable_external_access = false",
    "SET lock_configuration = true",
    "CREATE SCHEMA copied",
    "CREATE TABLE copied.sequences (sequence INTEGER, sequence_id VARCHAR, label VARCHAR, source VARCHAR, "
    "turns INTEGER)",
    "CREATE TABLE copied.runs (run INTEGER, name VARCHAR, observer VARCHAR, observer_version VARCHAR, "
    "context VARCHAR)",
    "CREATE TABLE copied.principles (principle INTEGER, name VARCHAR)",
    "CREATE TABLE copied.evaluations (run INTEGER, sequence INTEGER, turn INTEGER, principle INTEGER, "
    "response BOOLEAN, prompt_chars INTEGER, response_chars INTEGER, T DOUBLE, I DOUBLE, F DOUBLE)",
    "CREATE VIEW sequences AS SELECT sequence_id, label, source, turns FROM copied.sequences",
    "CREATE VIEW runs AS SELECT name AS run, observer, observer_version, context FROM copied.runs",
    "CREATE VIEW evaluations AS SELECT runs.name AS run, sequence_id, label, source, turn, "
    "CASE WHEN response THEN 'response' ELSE 'prompt' END AS side, principles.name AS principle, T, I, F, "
    "CASE WHEN response THEN response_chars ELSE prompt_chars END AS chars FROM copied.evaluations "
    "JOIN copied.runs USING (run) JOIN copied.sequences USING (sequence) JOIN copied.principles USING (principle)",
)
"""What an empty mirror is made with. No file can be read through it, and no setting changed."""


def trajectories_sql(run: int, scored: Sequence[tuple[int, bool]], touched: str | None = None) -> str:
    """Return the query that makes the trajectories of a run: a row a sequence, its evaluated turns as lists.

    Args:
        run: number of the run.
        scored: number of the principle and whether of the response, of every triple of columns.
        touched: query of the sequences that are wanted; all by default.
    """
    triples = [
        (f"{component}{at}", f"max({component}) FILTER (principle = {principle} AND response = {response})")
        for at, (principle, response) in enumerate(scored)
        for component in "TIF"
    ]
    turns = [("turn", "turn::DOUBLE")]
    turns += [(f"{side}_chars", f"any_value({side}_chars)::DOUBLE") for side in ("prompt", "response")]
    turns += triples
    struct = ", ".join(f"{name} := {sql}" for name, sql in turns)
    names = [name for name, _ in turns]
    lists = ", ".join(f"list_transform(turns, lambda t: t.{name}) AS {name}" for name in names)
    which = f"run = {run}" + (f" AND sequence IN ({touched})" if touched else "")
    # Sorting one list of rows is several times as fast as an ordered list for each column.
    return (
        f"SELECT sequence, {lists} FROM (SELECT sequence, list_sort(list(t)) AS turns FROM "
        f"(SELECT sequence, struct_pack({struct}) AS t FROM copied.evaluations WHERE {which} "
        "GROUP BY sequence, turn) GROUP BY sequence)"
    )
