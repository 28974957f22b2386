-- unlock: free a key, whoever holds it.
--
-- KEYS[1] jobs  LIST+ waiting envelopes; behind `:unique` who holds which key
-- KEYS[2] bell  LIST  at most one token; wakes the process that keeps the timer
-- ARGV[1] key
--
-- Returns 1, or 0 where nobody held it.
-- Invariant: the job that held it goes on; one that follows it waits for its turn as any other.
local call = redis.call
local jobs, bell = KEYS[1], KEYS[2]
local key = ARGV[1]
-- It holds no lease.
local progress = ''

-- include clock
-- include lists
-- include timers
local holder, follower = string.match(call('HGET', unique, key) or '', '^([^#]*)#.*#([^#]*)$')
if not holder then return 0 end
call('HDEL', unique, key)
local state, list, _, rest = standing(follower)
if state == 'f' then
  -- When it is due, or now.
  set_timer('#' .. follower, math.max(tonumber(string.match(rest, '^%d+')) or now, now), 'CH')
end
return 1
