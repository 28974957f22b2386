-- reconcile: begin a worker's connection: raise its session and tell which leases it holds.
--
-- KEYS[1] workers   ZSET    worker -> last heartbeat in ms
-- KEYS[2] record    HASH    the worker's session, settings and what it is
-- KEYS[3] progress  HASH    lease -> envelope
-- KEYS[4] inbox     LIST    what the server handed to the worker while it waited, oldest at the right
-- KEYS[5] token     STRING  the last token of the queue
-- ARGV[1] worker  its id
-- ARGV[2] which   'first' or 'again'
-- ARGV[3] now field, value of the record; repeated
--
-- Returns {'ok', session, time in ms, lease, lease, ...}; {'void'} when this is not the first and the worker was
-- declared dead or is not known any more.
-- Invariant: what was in the inbox is under a lease afterwards; a call under an older session does nothing from now on.
local workers, record, progress, inbox, token_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local worker, which = ARGV[1], ARGV[2]

local known = redis.call('HMGET', record, 'session', 'dead')
if known[2] or (which == 'again' and not known[1]) then return {'void'} end

redis.call('HDEL', progress, '')

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', record, unpack(ARGV, 3))
redis.call('HSETNX', record, 'started', now)
redis.call('ZADD', workers, now, worker)
local session = redis.call('HINCRBY', record, 'session', 1)

-- A token that is no whole number, or beyond those that the server spells as one, is somebody else's doing: begin at the
-- time.
local last = tonumber(redis.call('GET', token_key) or '0') or 0
if not (last < 2 ^ 52 - 10000) then last = 0 end
local token = math.max(math.floor(last), time[1] * 1000000 + time[2] - 1)
-- Redis 7.2.0 to 7.2.4 spell a number that ends in eight zeros as a power of ten: none of those that follow is one.
if token % 1e8 >= 1e8 - 2000 then token = token - token % 1e8 + 1e8 end
local moved = {}
for _, envelope in ipairs(redis.call('RPOP', inbox, 1000) or {}) do
  token = token + 1
  moved[#moved + 1] = token
  moved[#moved + 1] = envelope
end
if #moved > 0 then
  redis.call('HSET', progress, unpack(moved))
  redis.call('SET', token_key, token)
end

local reply = redis.call('HKEYS', progress)
table.insert(reply, 1, now)
table.insert(reply, 1, session)
table.insert(reply, 1, 'ok')
return reply
