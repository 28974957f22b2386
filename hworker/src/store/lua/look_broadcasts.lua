-- look_broadcasts: tell what there is of the jobs that each worker runs.
--
-- KEYS[1] jobs      LIST+ waiting envelopes; behind `:broadcast` such jobs, see lib/broadcast.lua
-- KEYS[2] progress  HASH  lease -> envelope; where it is given, what this worker is to take is told alone, by the ids
--
-- Returns of each {id, most, until when it begins, job, how many workers run it, are to run it again, and have run it}, one after the other.
local call = redis.call
local jobs, progress = KEYS[1], KEYS[2] or ''

-- include clock
-- include broadcast
-- include open_broadcasts
if KEYS[2] then return open_broadcasts() end
local reply, all = {}, call('HGETALL', broadcasts)
for i = 1, #all, 2 do
  local most, expires_at, job = string.match(all[i + 1], '^(%d+) (%d+) (.*)$')
  if job and tonumber(expires_at) > now then
    local states = {r = 0, w = 0, d = 0}
    local of_workers = redis.pcall('HGETALL', broadcasts .. ':' .. all[i])
    for j = 1, #of_workers, 2 do
      local state = of_workers[j] ~= '' and string.sub(of_workers[j + 1], 1, 1)
      if states[state] then states[state] = states[state] + 1 end
    end
    for _, value in ipairs({all[i], most, expires_at, job, states.r, states.w, states.d}) do reply[#reply + 1] = value end
  end
end
return reply
