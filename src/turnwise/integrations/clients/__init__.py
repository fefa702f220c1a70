"""What guarded clients of model packages share.

`client` has the clients and their parts as the caller sees them, `streams` the replies in pieces. `calls` takes a
request through the guard; for replies that are lists of parts (OpenAI's Responses, Anthropic's Messages)
`part_replies` and `part_streams` take it back. `shapes` and `texts` find what is said in any request or reply.
"""
