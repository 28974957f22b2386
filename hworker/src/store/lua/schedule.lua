-- schedule: put envelopes among the scheduled jobs of a queue.
--
-- KEYS[1] scheduled  ZSET  envelope -> due time in ms
-- KEYS[2] bell       LIST  at most one token; wakes the process that keeps the timer
-- ARGV[1] now "in", then a delay in ms, then an envelope; or "at", a time in ms, an envelope; repeated
--
-- Returns 'ok'.
-- Invariant: all are scheduled or, where the server refuses the first write, none is.
local call = redis.call
local scheduled, bell = KEYS[1], KEYS[2]

-- include clock
local first = call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
call('LLEN', bell)

local entries, due = {}, math.huge
for i = 1, #ARGV, 3 do
  local at = tonumber(ARGV[i + 1])
  if ARGV[i] == 'in' then at = now + at end
  due = math.min(due, at)
  entries[#entries + 1] = string.format('%.0f', at)
  entries[#entries + 1] = ARGV[i + 2]
end

-- The bell first: a user who may not ring it schedules nothing, while a bell without a job does no harm.
-- include wake
call('ZADD', scheduled, unpack(entries))
return 'ok'
