-- reconcile: begin a worker's connection: raise its session and tell which leases it holds.
--
-- KEYS[1] workers   ZSET    worker -> last heartbeat in ms
-- KEYS[2] record    HASH    the worker's session, settings and what it is
-- KEYS[3] progress  HASH    lease -> envelope
-- KEYS[4] inbox     LIST    what the server handed to the worker while it waited, oldest at the right
-- KEYS[5] token     STRING  the last token of the queue
-- KEYS[6] jobs      LIST+   waiting envelopes; the right end is taken next; behind `:control` what is in force
-- ARGV[1] worker  its id
-- ARGV[2] which   'first' or 'again'
-- ARGV[3] now field, value of the record; repeated
--
-- Returns {'ok', session, time in ms, lease, lease, ...}; {'void'} when this is not the first and the worker was
-- declared dead or is not known any more.
-- Invariant: what was in the inbox is under a lease afterwards, or back in front while the queue is paused or has a limit; a call under an older session
-- does nothing from now on.
local call = redis.call
local workers, record, progress, inbox, token_key, jobs =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local worker, which = ARGV[1], ARGV[2]

local known = call('HMGET', record, 'session', 'dead')
if known[2] or (which == 'again' and not known[1]) then return {'void'} end

call('HDEL', progress, '')

-- include clock
call('HSET', record, unpack(ARGV, 3))
call('HSETNX', record, 'started', now)
call('ZADD', workers, now, worker)
local session = call('HINCRBY', record, 'session', 1)

-- include token
-- include lists
-- include pause
-- Where somebody made another type of it, nothing is in force.
local of_queue = redis.pcall('HMGET', jobs .. ':control', 'paused', 'set:*', 'set_rate:*')
call('LLEN', jobs)
local handed, moved = call('RPOP', inbox, 1000) or {}, {}
if is_paused(of_queue[1]) or of_queue[2] or of_queue[3] then
  for i = #handed, 1, -1 do
    if not is_ticket(handed[i]) then call('RPUSH', jobs, handed[i]) end
  end
  handed = {}
end
for _, envelope in ipairs(handed) do
  -- A ticket: the worker looks at once.
  if not is_ticket(envelope) then
    token = token + 1
    moved[#moved + 1] = token
    moved[#moved + 1] = envelope
  end
end
if #moved > 0 then
  call('HSET', progress, unpack(moved))
  call('SET', token_key, mark and string.format('%.0f+', token) or token)
end

local reply = call('HKEYS', progress)
table.insert(reply, 1, now)
table.insert(reply, 1, session)
table.insert(reply, 1, 'ok')
return reply
