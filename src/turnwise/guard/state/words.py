"""What payloads of a state store have in common, which makes them shorter.

A payload can't be read without the words that it was written with: these never change. Better ones get a new name
and a new version of what is written.
"""

from typing import Final

_CLEAN: Final = (
    b'":{"status":"evaluated","blocked":false,"found":false,"action":null,"confidence":0.0,"reason":"",'
    b'"redactions":[],"seconds":1e-05,"path":null,"data":null},"'
)

TURN_WORDS: Final = (
    b'"status":"skipped","status":"failed","failed: ","path":"closed","path":"open","action":"block","acti'
    b'on":"warn",'
    b'"action":"redact","found":true,"blocked":true,"reason":"","redactions":[{"start":0,"end":16,"kind":"'
    b'email",'
    b'"placeholder":"[EMAIL]"}],"third_party_harm":{"T":0.98,"I":0.02,"F":0.01},"context_integrity":{"T":0'
    b'.98,"I":0.02,'
    b'"F":0.01},"reciprocity":{"T":0.98,"I":0.02,"F":0.01}}}}},"trust_level":"low","mode":"guarded","termi'
    b'nated",'
    b'"trajectory":"degrading","boundary":["breakers"],"phase":"violated","recovery","processing":false,'
    b'"openai_moderation","presidio","topics","urls","code","regex","keywords","llm","harm'
    + _CLEAN
    + b"length"
    + _CLEAN
    + b"secrets"
    + _CLEAN
    + b"pii"
    + _CLEAN
    + b"toxicity"
    + _CLEAN
    + b"prompt_injection"
    + _CLEAN
    + b'drift":{"status":"evaluated","blocked":false,"found":false,"action":null,"confidence":0.0,"reason":"",'
    b'"redactions":[],"seconds":0.0003,"path":null,"data":{"detector":"any_turn","score":0.0,"threshold":0.5,'
    b'"warn":0.425,"active":false,"turn":1,"scores":{"context_integrity":{"T":0.98,"I":0.02,"F":0.01},"rec'
    b'iprocity"'
    b'{"turn":1,"prompt":"","response":"","timestamp":"2026-01-01T00:00:00.000000+00:00","response_timesta'
    b'mp":"2026-'
    b'"metadata":{"guardrail_results":{"input":{"pipeline_type":"input","timestamp":"2026-01-01T00:00:00.0'
    b'00000+00:00"'
    b',"blocked":false,"stance":{"trust_level":"high","mode":"normal","trajectory":"stable","boundary":[],'
    b'"friction":'
    b'"none","phase":"normal","processing":true,"trust":0.65,"interactions":3,"attempts":0,"restarted":false,'
    b'"rationale":"trust 0.650 after 3 turns, stable"},"warnings":[],"reasons":[],"details":{"length":{"status":'
    b'"evaluated","blocked":false,"output":{"pipeline_type":"output","timestamp":"2026-01-01T00:00:00.0000'
    b'00+00:00",'
    b'"blocked":false,"warnings":[],"reasons":[],"details":{"'
)

CONVERSATION_WORDS: Final = (
    b'"rate_limit_events":{"count":1,"latest":[{"scope":"key","reason":"","text_sha256":"","after_turn":1,'
    b'"timestamp":"'
    b'"turns_per_minute":20,"initiator_type":"bot","responder_type":"bot","agent","human","unknown",'
    b'[{"conversation_id":"","participants":{"initiator":"user_123","responder":"gpt-4","initiator_type":"'
    b'human",'
    b'"responder_type":"ai_model"},"model_info":{"model_id":"gpt-4"},"metadata":{},"rate_limit":null,'
    b'"rate_limit_counts_after":0},[1,1,[],"2026-01-01T00:00:00.000000+00:00","2026-01-01T00:00:00.000000+'
    b'00:00"],1,[['
)

STATE_WORDS: Final = (
    b'"principle":{"third_party_harm":0.1,"context_integrity":0.1,"reciprocity":0.1},'
    b'[1,"",1,1,true,{"fired_at":null}]'
)
