-- open_keys: let the jobs of keys be taken that a limit has shut.
--
-- KEYS[1] jobs   LIST+  waiting envelopes; behind `:keys:<group>` the keys of a group by their turn
-- ARGV[1] limit  '<limit>='
--
-- Returns how many it opened, at most 1000 of each group; a later call goes on.
-- Invariant: a key whose limit has no room is shut again by the next `reserve`.
local call = redis.call
local jobs = KEYS[1]

-- include lists
local opened = 0
for _, group in ipairs(call('ZRANGE', lists, 0, 199)) do
  local of, keys = read(group), jobs .. ':keys:' .. group
  if of and of.by_key == ARGV[1] then
    local first = tonumber(front(keys))
    local closed = call('ZRANGEBYSCORE', keys, '1e15', '+inf', 'WITHSCORES', 'LIMIT', 0, 1000)
    for i = 1, #closed, 2 do call('ZADD', keys, string.format('%.0f', math.max(closed[i + 1] - shut, first)), closed[i]) end
    opened = opened + #closed / 2
  end
end
if opened > 0 then leave_ticket() end
return opened
