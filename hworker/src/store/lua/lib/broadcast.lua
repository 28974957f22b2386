-- broadcast: jobs that each worker runs once, or each of so many.
-- Needs call, jobs, and progress: the key under which the worker holds leases. Makes broadcasts, broadcast_of, note_broadcast and
-- leave_broadcasts.
--
-- `<jobs>:broadcast` has for each, by its id, '<most> <expires_at> <job>': by how many workers, 0 for all, until when they begin it, in ms, and
-- the name of its type. `<jobs>:broadcast:<id>` has its envelope at '', and at the key of each worker that took it 'r <lease>' while it runs
-- there, 'w <due>\n<envelope>' until it runs there again, and 'd' once it has ended there. A lease of one is `<token>.@<id>`. Both are kept for
-- a minute more, in which workers try again what was due, and find that its time is over.
local broadcasts = jobs .. ':broadcast'

local function broadcast_of(lease)
  return string.match(lease, '^%d+%.@([%w._-]+)$')
end

-- Notes what became of the copy under this lease; nil: another worker may have it. `envelope` is what the others take from now on. Where the
-- worker took it anew under another lease, or the job is over or cancelled, nothing is noted.
local function note_broadcast(lease, state, envelope)
  local of_id = jobs .. ':broadcast:' .. broadcast_of(lease)
  if redis.pcall('HGET', of_id, progress) ~= 'r ' .. lease then return end
  if envelope then call('HSET', of_id, '', envelope) end
  if state then call('HSET', of_id, progress, state) else call('HDEL', of_id, progress) end
end

-- A worker that is gone runs none again, so another may have it.
local function leave_broadcasts()
  for _, id in ipairs(redis.pcall('HKEYS', broadcasts)) do
    local of_id = jobs .. ':broadcast:' .. id
    local claim = redis.pcall('HGET', of_id, progress)
    if type(claim) == 'string' and string.sub(claim, 1, 1) == 'w' then call('HDEL', of_id, progress) end
  end
end
