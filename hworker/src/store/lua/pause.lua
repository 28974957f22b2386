-- pause: have workers take no job of a queue.
--
-- KEYS[1] jobs   LIST+   waiting envelopes; behind `:control` what is in force
-- KEYS[2] token  STRING  the last token of the queue
-- ARGV[1] ms     for so long; 0 until it is resumed
-- ARGV[2] order  that of all queues by which it is paused, or ''; each is obeyed once, and shortens no other pause
--
-- Returns 'ok'.
-- Invariant: what is taken afterwards is taken by calls that know of it.
local call = redis.call
local jobs, token_key = KEYS[1], KEYS[2]
local ms, order = tonumber(ARGV[1]), ARGV[2]

-- include clock
local before = call('HMGET', jobs .. ':control', 'paused', 'all')
local paused, obeyed = before[1], before[2]
if order ~= '' and obeyed == order then return 'ok' end
-- include mark
if order ~= '' then call('HSET', jobs .. ':control', 'all', order) end
-- include pause
local is_longer = is_paused(paused) and (tonumber(paused) == 0 or ms > 0 and tonumber(paused) > now + ms)
if order ~= '' and is_longer then return 'ok' end
call('HSET', jobs .. ':control', 'paused', ms == 0 and 0 or string.format('%.0f', now + ms))
-- Tickets of a resume before.
call('DEL', jobs .. ':gate')
return 'ok'
