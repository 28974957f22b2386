-- look_broadcasts: tell what there is of the jobs that each worker runs. Changes nothing.
--
-- KEYS[1] jobs  LIST+ waiting envelopes; behind `:broadcast` such jobs, see lib/broadcast.lua
--
-- Returns of each that has not expired, or runs still, or is to run again: {id, most, until when workers begin it, job, how many workers run it,
-- are to run it again, and have run it}, one after the other.
local call = redis.call
local jobs = KEYS[1]
local broadcasts = jobs .. ':broadcast'

-- include clock
local reply, all = {}, call('HGETALL', broadcasts)
for i = 1, #all, 2 do
  local most, expires_at, job = string.match(all[i + 1], '^(%d+) (%d+) (.*)$')
  local of_id, states = jobs .. ':broadcast:' .. all[i], {r = 0, w = 0, d = 0}
  local workers = {}
  for _, field in ipairs(redis.pcall('HKEYS', of_id)) do
    -- Not the envelope, which may be large.
    if field ~= '' then workers[#workers + 1] = field end
  end
  for first = 1, #workers, 1000 do
    for _, claim in ipairs(call('HMGET', of_id, unpack(workers, first, math.min(first + 999, #workers)))) do
      local state = string.sub(claim, 1, 1)
      if states[state] then states[state] = states[state] + 1 end
    end
  end
  if job and (tonumber(expires_at) > now or states.r + states.w > 0) then
    for _, value in ipairs({all[i], most, expires_at, job, states.r, states.w, states.d}) do reply[#reply + 1] = value end
  end
end
return reply
