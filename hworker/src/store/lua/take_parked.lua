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
-- Returns {'ok', for each its lease, or '' where it was not there};
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
-- include lists
-- include whole

for i = 2, #ARGV do
  local member = call('ZRANGEBYSCORE', parked, ARGV[i], ARGV[i], 'LIMIT', 0, 1)[1]
  local name = whole(member or '')
  if name and read(name) then look_at_list(name) end
end

local reply, taken = {'ok'}, {}
for i = 2, #ARGV do
  local member, lease = call('ZRANGEBYSCORE', parked, ARGV[i], ARGV[i], 'LIMIT', 0, 1)[1], ''
  if member then
    call('ZREM', parked, member)
    local name, envelope = whole(member)
    -- What only looks like one.
    if not (name and read(name)) then name, envelope = nil, member end
    if is_limited or name and read(name).limits[1] then
      -- `reserve` knows whether it may run now.
      push('RPUSH', name or '', envelope)
    else
      token = token + 1
      lease = string.format('%.0f', token) .. (name and '.' .. name or '')
      taken[#taken + 1] = lease
      taken[#taken + 1] = envelope
      if name then stand(read(name), 'r', (progress or '') .. ' ' .. lease) end
    end
  end
  reply[#reply + 1] = lease
end
if #taken > 0 then
  call('HSET', progress, unpack(taken))
  call('SET', token_key, string.format('%.0f', token) .. (mark or ''))
end
return reply
