"""What a Redis server does in one step for ``RedisStateStore``: scripts in Lua, each atomic.

Keys, all under one prefix:

- ``meta``: hash with the ``format`` of the keys and the ``id`` of the store, by which an emptied one is known;
- ``state:KIND:KEY``: hash of a state: ``p`` payload, ``u`` microseconds of its last change, ``l`` whether it must
  last, ``o`` owner, ``r`` the token of its last change, and ``=NAME`` for each part;
- ``live`` and ``ended``: sorted sets of ``KIND:KEY`` by last change, of what may be dropped and what must last;
- ``owner:KIND:OWNER``: sorted set of keys by the time at which they expire.
"""

from typing import Final

_COMMON: Final = """
local prefix = ARGV[1]
local function owner_key(member, owner)
  local colon = string.find(member, ':', 1, true)
  return prefix .. 'owner:' .. string.sub(member, 1, colon) .. owner, string.sub(member, colon + 1)
end
local function drop(index, member)
  local hash = prefix .. 'state:' .. member
  local owner = redis.call('HGET', hash, 'o')
  local known = redis.call('DEL', hash)
  redis.call('ZREM', index, member)
  if owner and owner ~= '' then
    local set, key = owner_key(member, owner)
    redis.call('ZREM', set, key)
  end
  return known
end
local function before(index, score, most)
  return redis.call('ZRANGEBYSCORE', index, '-inf', '(' .. string.format('%.0f', score), 'LIMIT', 0, most)
end
"""

OPEN: Final = """
if redis.call('HSETNX', KEYS[1], 'format', ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1], 'id', ARGV[2])
end
return redis.call('HMGET', KEYS[1], 'format', 'id')
"""
"""KEYS: meta. ARGV: format, an id. Returns format and id of the store, which is made where it is not there."""

CHANGE: Final = (
    _COMMON
    + """
local meta, live, ended = KEYS[1], KEYS[2], KEYS[3]
local token, now = ARGV[3], tonumber(ARGV[4])
local limit, ended_limit = tonumber(ARGV[5]), tonumber(ARGV[6])
local ttl = {['0'] = tonumber(ARGV[7]), ['1'] = tonumber(ARGV[8])}
local index = {['0'] = live, ['1'] = ended}
if redis.call('HGET', meta, 'id') ~= ARGV[2] then return 'emptied' end

local states, at = {}, 9
for i = 4, #KEYS do
  local state = {hash = KEYS[i], member = ARGV[at], expected = ARGV[at + 1], mode = ARGV[at + 2],
    payload = ARGV[at + 3], lasting = ARGV[at + 4], owner = ARGV[at + 5], first = at + 7,
    last = at + 6 + 2 * tonumber(ARGV[at + 6])}
  at = state.last + 1
  local known = redis.call('HMGET', state.hash, 'r', 'l', 'o')
  state.token, state.was, state.owned = known[1] or '', known[2], known[3] or ''
  states[#states + 1] = state
end

-- Asked again since the answer was lost on its way: it is done.
local done = true
for _, state in ipairs(states) do
  if state.mode ~= 'read' and state.token ~= token then done = false end
end
if done then return 'written' end
local more = 0
for _, state in ipairs(states) do
  if state.token ~= state.expected then return 'changed' end
  if state.mode ~= 'read' and state.lasting == '1' and state.was ~= '1' then more = more + 1 end
end

for lasting, set in pairs(index) do
  if ttl[lasting] then
    for _, member in ipairs(before(set, now - 1000 * ttl[lasting], 20)) do
      local ours = false
      for _, state in ipairs(states) do ours = ours or state.member == member end
      if not ours then drop(set, member) end
    end
  end
end
if more > 0 and redis.call('ZCARD', ended) + more > ended_limit then return 'full' end

local written = {}
for _, state in ipairs(states) do
  if state.mode ~= 'read' then
    written[state.member] = true
    if state.mode == 'anew' then redis.call('DEL', state.hash) end
    redis.call('HSET', state.hash, 'p', state.payload, 'u', ARGV[4], 'l', state.lasting, 'o', state.owner,
      'r', token)
    for part = state.first, state.last, 2 do
      redis.call('HSET', state.hash, '=' .. ARGV[part], ARGV[part + 1])
    end
    local kept = ttl[state.lasting]
    if kept then redis.call('PEXPIRE', state.hash, kept) else redis.call('PERSIST', state.hash) end
    redis.call('ZADD', index[state.lasting], now, state.member)
    redis.call('ZREM', index[state.lasting == '1' and '0' or '1'], state.member)
    if state.owned ~= '' and state.owned ~= state.owner then
      local set, key = owner_key(state.member, state.owned)
      redis.call('ZREM', set, key)
    end
    if state.owner ~= '' then
      local set, key = owner_key(state.member, state.owner)
      redis.call('ZADD', set, kept and string.format('%.0f', now + 1000 * kept) or '+inf', key)
      redis.call('ZREMRANGEBYSCORE', set, '-inf', string.format('%.0f', now))
      local longest = redis.call('ZRANGE', set, -1, -1, 'WITHSCORES')[2]
      if longest == 'inf' then redis.call('PERSIST', set)
      elseif longest then redis.call('PEXPIRE', set, math.ceil((tonumber(longest) - now) / 1000)) end
    end
  end
end

local beyond = math.min(redis.call('ZCARD', live) - limit, 1000)
if beyond > 0 then
  for _, member in ipairs(redis.call('ZRANGE', live, 0, beyond - 1 + #states)) do
    if beyond > 0 and not written[member] then
      drop(live, member)
      beyond = beyond - 1
    end
  end
end
return 'written'
"""
)
"""Writes states if none was changed meanwhile.

KEYS: meta, live, ended, then the hash of each state.

ARGV: prefix, id of the store, token of this change, microseconds of now, limit, ended_limit, milliseconds that
states are kept, the same for those that must last (empty for no end); then for each state its member, the token
that was read (empty for none), mode (``read``, ``write``, or ``anew`` where what is there is past its time),
payload, whether it must last, owner, number of parts, and name and payload of each part.

Returns ``written``; ``changed`` where somebody was faster, ``emptied`` where the store is another one than before,
``full`` where no more may be added that must last. Nothing is written then. Asked again with the same token, it
writes nothing and returns ``written`` again.
"""

REMOVE: Final = (
    _COMMON
    + """
local last = redis.call('HGET', KEYS[3], 'l')
local known = drop(last == '1' and KEYS[2] or KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[2], ARGV[2])
return known
"""
)
"""KEYS: live, ended, the hash of the state. ARGV: prefix, member. Returns 1 where it was known, else 0."""

PURGE: Final = (
    _COMMON
    + """
local old = before(KEYS[1], tonumber(ARGV[2]), 500)
for _, member in ipairs(old) do drop(KEYS[1], member) end
return #old
"""
)
"""KEYS: live. ARGV: prefix, microseconds. Drops at most 500 states changed before that; returns how many."""
