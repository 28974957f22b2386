-- pause: have workers take no job of a queue.
--
-- KEYS[1] jobs   LIST+   waiting envelopes; behind `:control` what is in force
-- KEYS[2] token  STRING  the last token of the queue
-- ARGV[1] ms     for so long; 0 until it is resumed
--
-- Returns 'ok'.
-- Invariant: what is taken afterwards is taken by calls that know of it.
local call = redis.call
local jobs, token_key = KEYS[1], KEYS[2]
local ms = tonumber(ARGV[1])

-- include clock
-- include mark
call('HSET', jobs .. ':control', 'paused', ms == 0 and 0 or string.format('%.0f', now + ms))
-- Tickets of a resume before.
call('DEL', jobs .. ':gate')
return 'ok'
