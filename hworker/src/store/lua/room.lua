-- room: how many jobs of a queue wait, where somebody set how many may.
--
-- KEYS[1] jobs       LIST+  waiting envelopes; with `:<list>` behind it those of a list beside it; behind `:control` what is in force
-- KEYS[2] scheduled  ZSET   envelope -> due time in ms
--
-- Returns {how many may, how many wait}, or nothing where nobody set it. Of keys beyond the first 200 each counts as one job.
-- Invariant: nothing is changed.
local call = redis.call
local jobs, scheduled = KEYS[1], KEYS[2]

local most = tonumber(call('HMGET', jobs .. ':control', 'max:*')[1] or nil)
if not most then return {} end

-- include lists
local waiting, looks = call('LLEN', jobs) + call('ZCARD', scheduled), 200
for _, ticket in ipairs({'!', '!1', '!2', '!3'}) do
  if call('LPOS', jobs, ticket, 'RANK', -1, 'MAXLEN', 1000) then waiting = waiting - 1 end
end
for _, group in ipairs(call('ZRANGE', lists, 0, 199)) do
  local of = read(group)
  if of and of.key then
    local keys = jobs .. ':keys:' .. group
    waiting = waiting + call('ZCARD', keys)
    for _, key in ipairs(looks > 0 and call('ZRANGE', keys, 0, looks - 1) or {}) do
      looks = looks - 1
      waiting = waiting + math.max(call('LLEN', jobs .. ':' .. group .. key) - 1, 0)
    end
  else
    waiting = waiting + call('LLEN', jobs .. ':' .. group)
  end
end
return {most, waiting}
