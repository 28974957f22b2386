-- look_broadcasts: tell what there is of the jobs that each worker runs. Changes nothing.
--
-- KEYS[1] jobs  LIST+ waiting envelopes; behind `:broadcast` such jobs, see lib/broadcast.lua
--
-- Returns of each {id, most, until when it begins, job, how many workers run it, are to run it again, and have run it}, one after the other.
local call = redis.call
local jobs = KEYS[1]
local broadcasts = jobs .. ':broadcast'

-- include clock
local reply, all = {}, call('HGETALL', broadcasts)
for i = 1, #all, 2 do
  local most, expires_at, job = string.match(all[i + 1], '^(%d+) (%d+) (.*)$')
  if job and tonumber(expires_at) > now then
    local states = {r = 0, w = 0, d = 0}
    local of_workers = redis.pcall('HGETALL', jobs .. ':broadcast:' .. all[i])
    for j = 1, #of_workers, 2 do
      local state = of_workers[j] ~= '' and string.sub(of_workers[j + 1], 1, 1)
      if states[state] then states[state] = states[state] + 1 end
    end
    for _, value in ipairs({all[i], most, expires_at, job, states.r, states.w, states.d}) do reply[#reply + 1] = value end
  end
end
return reply
