"""A scanner of Inspect Scout: did a detector of turnwise fire on a transcript?

Run it with `python examples/inspect_scout_scanner.py LOGS`, after `pip install inspect-scout`. Scout needs an
older DuckDB than turnwise, so turnwise is in an environment of its own; TURNWISE names its command.
"""

import asyncio
import json
import os
import sys

from inspect_ai.model import ChatMessage
from inspect_scout import Result, Scanner, Transcript, scan, scan_results_df, scanner, transcripts_from

ROLES = ("user", "assistant")


@scanner(messages=list(ROLES))
def turnwise_detector(detector: str = "any_turn", observer: str = "local") -> Scanner[Transcript]:
    """Return a scanner whose value is whether the detector fired."""

    async def scanned(transcript: Transcript) -> Result:
        messages = [told(message) for message in transcript.messages]
        command = (os.environ.get("TURNWISE", "turnwise"), "check", "-", "--json", "--quiet")
        process = await asyncio.create_subprocess_exec(
            *command,
            *("--detector", detector, "--observer", observer),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, errors = await process.communicate(json.dumps(messages).encode())
        if process.returncode != 0:
            raise RuntimeError(f"turnwise check ended with {process.returncode}: {errors.decode().strip()}")
        (verdict,) = json.loads(out)["detectors"]
        return Result(value=verdict["fired"], explanation=verdict["reason"], metadata={"observer": observer})

    return scanned


def told(message: ChatMessage) -> dict[str, str]:
    """Return a message as turnwise reads it."""
    return {"role": message.role, "content": message.text}


def main() -> None:
    """Scan a folder of logs and print a line for each transcript."""
    status = scan(
        [turnwise_detector()], transcripts_from(sys.argv[1]), scans="scans", max_processes=1, display="none"
    )
    found = scan_results_df(status.location).scanners["turnwise_detector"]
    for row in found.itertuples():
        print(row.transcript_id, row.scan_error if isinstance(row.scan_error, str) else row.value)


if __name__ == "__main__":
    main()
