-- open_broadcasts: what a worker is to take of the jobs that each worker runs.
-- Needs call, now, progress, and lib/broadcast. Makes is_open and open_broadcasts.

-- It had none, and fewer than are wanted have; or it is to run it again; or somebody removed its lease.
local function is_open(id, most, expires_at)
  local of_id = jobs .. ':broadcast:' .. id
  local claim = redis.pcall('HGET', of_id, progress)
  if type(claim) == 'string' then
    local due, lease = string.match(claim, '^w (%d+)\n'), string.match(claim, '^r (.*)$')
    return due and tonumber(due) <= now or lease and call('HEXISTS', progress, lease) == 0
  end
  -- With its envelope there is one field more than workers. Where somebody made another type of the key, there is none.
  local size = redis.pcall('HLEN', of_id)
  return expires_at > now and type(size) == 'number' and size > 0 and (most == 0 or size <= most)
end

-- What its leases could not name is none of ours.
local function open_broadcasts()
  local open, all = {}, redis.pcall('HGETALL', broadcasts)
  for i = 1, #all, 2 do
    local most, expires_at = string.match(all[i + 1], '^(%d+) (%d+) ')
    if not expires_at or tonumber(expires_at) + 60000 <= now then
      call('HDEL', broadcasts, all[i])
    elseif string.find(all[i], '^[%w._-]+$') and is_open(all[i], tonumber(most), tonumber(expires_at)) then
      open[#open + 1] = all[i]
    end
  end
  return open
end
