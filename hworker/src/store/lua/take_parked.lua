-- take_parked: hand parked envelopes to a worker that can run them, each under a fresh lease.
--
-- KEYS[1] record    HASH    the worker's session and whether it was declared dead
-- KEYS[2] progress  HASH    lease -> envelope (opaque bytes)
-- KEYS[3] parked    ZSET    envelope -> token
-- KEYS[4] token     STRING  the last token of the queue
-- KEYS[5] jobs      LIST+   waiting envelopes; behind `:control` what is in force
-- ARGV[1] session   of the connection over which the worker reserves
-- ARGV[2] now the tokens of the jobs, at most 1000
--
-- Returns {'ok', first lease, 1 or 0 for each: whether it was there}: the leases of those that were there count up from the first;
-- {'void'} when the worker was declared dead or is not known; {'stale'} under an old session; {'closed'} while the queue is
-- paused.
-- Invariant: an envelope leaves `parked` and enters `progress`, or the queue where that has a limit, in the same script, once however many ask.
local call = redis.call
local record, progress, parked, token_key, jobs = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local session = ARGV[1]

local known = call('HMGET', record, 'session', 'dead')
if not known[1] or known[2] then return {'void'} end
if known[1] ~= session then return {'stale'} end

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
call('ZCARD', parked)
call('LLEN', jobs)
call('HDEL', progress, '')

-- include clock
-- include pause
local of_queue = call('HMGET', jobs .. ':control', 'paused', 'set:*', 'set_rate:*')
local is_limited = of_queue[2] or of_queue[3]
if is_paused(of_queue[1]) then return {'closed'} end
-- include token

local reply, taken = {'ok', string.format('%.0f', token + 1)}, {}
for i = 2, #ARGV do
  local envelope = call('ZRANGEBYSCORE', parked, ARGV[i], ARGV[i], 'LIMIT', 0, 1)[1]
  if envelope then
    call('ZREM', parked, envelope)
    if is_limited then
      -- `reserve` knows whether it may run now.
      call('RPUSH', jobs, envelope)
      envelope = nil
    else
      token = token + 1
      taken[#taken + 1] = string.format('%.0f', token)
      taken[#taken + 1] = envelope
    end
  end
  reply[#reply + 1] = envelope and 1 or 0
end
if #taken > 0 then
  call('HSET', progress, unpack(taken))
  call('SET', token_key, string.format('%.0f', token) .. (mark or ''))
end
return reply
