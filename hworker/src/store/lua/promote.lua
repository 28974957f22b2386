-- promote: move what is due from the scheduled jobs to the queue.
--
-- KEYS[1] scheduled  ZSET  envelope -> due time in ms
-- KEYS[2] jobs       LIST  envelopes; new ones go to its left
-- ARGV[1] want   how many at most (1..1000)
-- ARGV[2] bytes  stop at so many bytes
--
-- Returns {how many were moved, ms until the next is due or -1 when none is left}.
-- Invariant: an envelope leaves `scheduled` and enters `jobs` in the same script, the earliest due first.
local call = redis.call
local scheduled, jobs = KEYS[1], KEYS[2]
local want, bytes = tonumber(ARGV[1]), tonumber(ARGV[2])

-- include clock

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
call('LLEN', jobs)

local moved, at_once, largest = 0, 1, 1
while moved < want and at_once > 0 do
  -- As in reserve.lua.
  local due = call('ZRANGEBYSCORE', scheduled, '-inf', now, 'LIMIT', 0, math.min(want - moved, at_once))
  if #due == 0 then break end
  call('ZREM', scheduled, unpack(due))
  call('LPUSH', jobs, unpack(due))
  moved = moved + #due
  for _, envelope in ipairs(due) do
    bytes = bytes - #envelope
    largest = math.max(largest, #envelope)
  end
  at_once = math.min(at_once * 2, 32, math.floor(bytes / largest))
end

local next_due = call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]
return {moved, next_due and math.max(0, math.ceil(tonumber(next_due) - now)) or -1}
