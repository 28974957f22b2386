-- relist: find lists that have jobs and in which no worker looks, and enter them again if asked.
--
-- KEYS[1] jobs   LIST+   waiting envelopes; with `:<list>` behind it those of a list beside it
-- KEYS[2] token  STRING  the last token of the queue
-- ARGV[1] set    '1' to enter them
-- ARGV[2] now lists
--
-- Returns how many there were.
-- Invariant: nothing else changes.
local call = redis.call
local jobs, token_key = KEYS[1], KEYS[2]
local set = ARGV[1] == '1'
-- It holds no lease.
local progress = ''

-- include lists
local is_marked = string.sub(call('GET', token_key) or '', -1) == '+'
local found = 0
for i = 2, #ARGV do
  local list = ARGV[i]
  local of = read(list)
  if of and list ~= '' then
    look_at_list(list)
    local keys = jobs .. ':keys:' .. of.group
    local is_entered = is_marked and call('ZSCORE', lists, of.group) and (not of.key or call('ZSCORE', keys, of.key))
    if not is_entered and call('LLEN', jobs .. ':' .. list) > 0 then
      found = found + 1
      if set then enter(list) end
    end
  end
end
if set and found > 0 then
  -- include mark
end
return found
