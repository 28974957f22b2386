-- take_broadcast: give a worker its copy of a job that each worker runs, under a lease.
--
-- KEYS[1] record    HASH    the worker's session and whether it was declared dead
-- KEYS[2] progress  HASH    lease -> envelope
-- KEYS[3] token     STRING  the last token of the queue
-- KEYS[4] jobs      LIST+   waiting envelopes; behind `:broadcast` such jobs, see lib/broadcast.lua
-- KEYS[5] bell      LIST    at most one token; wakes the process that keeps the timer
-- ARGV[1] session   of the connection over which the worker reserves
-- ARGV[2] id
-- ARGV[3] job       the name of its type, which may be held up
--
-- Returns {'ok', lease, envelope}; {'gone'} where it is over or held up, or this worker is not to have it; {'void'} when the worker was declared dead
-- or is not known; {'stale'} under an old session; {'closed'} while the queue is paused or has no room.
-- Invariant: a worker that has had it gets it again only to try it again, and no more workers have had it than are wanted.
local call = redis.call
local record, progress, token_key, jobs, bell = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local session, id, job = ARGV[1], ARGV[2], ARGV[3]

local known = call('HMGET', record, 'session', 'dead')
if not known[1] or known[2] then return {'void'} end
if known[1] ~= session then return {'stale'} end

-- include clock
-- include broadcast
-- include open_broadcasts
local of_id = jobs .. ':broadcast:' .. id
local most, expires_at = string.match(call('HGET', broadcasts, id) or '', '^(%d+) (%d+) ')
local shared, claim = unpack(call('HMGET', of_id, '', progress))
if not most or not shared or not is_open(id, tonumber(most), tonumber(expires_at)) then return {'gone'} end

call('HDEL', progress, '')
-- include lists
-- include limits
call('ZCARD', held)
local of_queue = call('HMGET', control, 'paused', 'set:*', 'set_rate:*')
local has_limit = of_queue[2] or of_queue[3]
if is_paused(of_queue[1]) or has_limit and room_of('*').n == 0 then return {'closed'} end
if room_of(job).n == 0 then return {'gone'} end
-- include token
token = string.format('%.0f', token + 1)
local lease, envelope = token .. '.@' .. id, string.match(claim or '', '^w %d+\n(.*)$') or shared
call('SET', token_key, token .. (mark or ''))
call('HSET', progress, lease, envelope)
call('HSET', of_id, progress, 'r ' .. lease)
if has_limit then
  call('ZADD', held, 0, '* ' .. token)
  took('*', 1)
end
return {'ok', lease, envelope}
