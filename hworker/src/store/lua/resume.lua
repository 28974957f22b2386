-- resume: have workers take jobs of a paused queue again.
--
-- KEYS[1] jobs     LIST+  waiting envelopes; behind `:control` what is in force
-- KEYS[2] workers  ZSET   worker -> last heartbeat in ms
--
-- Returns how many pauses it ended: 1, or 0 where the queue was not paused.
-- Invariant: every worker that waits at `<jobs>:gate` is woken, by a ticket each.
local call = redis.call
local jobs, workers = KEYS[1], KEYS[2]

-- include clock
-- include pause
local was_paused = is_paused(call('HGET', jobs .. ':control', 'paused') or nil)
call('HDEL', jobs .. ':control', 'paused')
if was_paused then
  -- include gate
end
return was_paused and 1 or 0
