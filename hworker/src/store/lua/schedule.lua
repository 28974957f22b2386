-- schedule: put envelopes among the scheduled jobs of a queue.
--
-- KEYS[1] scheduled  ZSET  envelope -> due time in ms
-- KEYS[2] bell       LIST  at most one token; wakes the process that keeps the timer
-- ARGV[1] now "in", then a delay in ms, then an envelope; or "at", a time in ms, an envelope; repeated
--
-- Returns 'ok'.
-- Invariant: all are scheduled or, where the server refuses the first write, none is.
local scheduled, bell = KEYS[1], KEYS[2]

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local first = redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
local rung = redis.call('LLEN', bell) > 0

local entries, earliest = {}, math.huge
for i = 1, #ARGV, 3 do
  local due = tonumber(ARGV[i + 1])
  if ARGV[i] == 'in' then due = now + due end
  earliest = math.min(earliest, due)
  entries[#entries + 1] = string.format('%.0f', due)
  entries[#entries + 1] = ARGV[i + 2]
end

-- The bell first: a user who may not ring it schedules nothing, while a bell without a job does no harm.
if (not first or earliest < tonumber(first)) and not rung then
  redis.call('LPUSH', bell, '1')
end
redis.call('ZADD', scheduled, unpack(entries))
return 'ok'
