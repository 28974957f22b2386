-- release: give leased envelopes back, uncounted.
--
-- KEYS[1] progress   HASH  lease -> envelope
-- KEYS[2] jobs       LIST  envelopes; the right end is taken next
-- KEYS[3] scheduled  ZSET  envelope -> due time in ms
-- KEYS[4] bell       LIST  at most one token; wakes the process that keeps the timer
-- ARGV[1] now lease, delay in ms, envelope ('' keeps the bytes); repeated, the youngest lease first
--
-- Returns how many leases were still held.
-- Invariant: an envelope leaves `progress` and enters its list in the same script; without a delay it is next.
local progress, jobs, scheduled, bell = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- Looked at before anything is taken, as in settle.lua.
local needed = {}
for i = 2, #ARGV, 3 do
  if ARGV[i] == '0' then
    needed[jobs] = 'LLEN'
  else
    needed[scheduled], needed[bell] = 'ZCARD', 'LLEN'
  end
end
for key, look in pairs(needed) do redis.call(look, key) end
local first = needed[scheduled] and redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]

local earliest, released = math.huge, 0

for i = 1, #ARGV, 3 do
  local lease, delay, envelope = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  if envelope == '' then envelope = redis.call('HGET', progress, lease) end
  if redis.call('HDEL', progress, lease) == 1 then
    released = released + 1
    if delay == 0 then
      redis.call('RPUSH', jobs, envelope)
    else
      earliest = math.min(earliest, now + delay)
      redis.call('ZADD', scheduled, string.format('%.0f', now + delay), envelope)
    end
  end
end

if earliest < math.huge and (not first or earliest < tonumber(first)) and redis.call('LLEN', bell) == 0 then
  redis.call('LPUSH', bell, '1')
end
return released
