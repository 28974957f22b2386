-- records: write and drop the records of ended jobs, each with its place in a sorted set, its bytes and its group.
-- Needs call, now, records, groups. Makes add_record, drop_record, drop_surplus, and write_groups, which must be the last.
--
-- In `groups` stand <group> -> '<records> <first> <last> <sample>', times in ms, and '|<outcome>' -> the bytes of its records. They are
-- read and written once in a script, however many records it writes.
local touched, grown = {}, {}

local function group_of(name)
  local group = touched[name]
  if not group then
    local count, first, sample = string.match(call('HGET', groups, name) or '', '^(%d+) (%d+ %d+) (.*)$')
    group = {count = tonumber(count) or 0, times = first, sample = sample}
    touched[name] = group
  end
  return group
end

local function add_record(outcome, ended, lease, id, job, name, text, sample)
  -- A second record of one id, as of a job that was enqueued twice.
  if call('HSETNX', records, id, text) == 0 then
    id = id .. '#' .. lease
    call('HSET', records, id, text)
  end
  call('ZADD', ended, now, name .. ' ' .. job .. ' ' .. id)
  grown[outcome] = (grown[outcome] or 0) + #text
  if name ~= '-' then
    local group = group_of(name)
    group.count, group.sample = group.count + 1, sample
    group.times = string.match(group.times or string.format('%.0f', now), '^%d+') .. string.format(' %.0f', now)
  end
end

-- `member` has left the sorted set.
local function drop_record(outcome, member)
  local name, id = string.match(member, '^(%S+) %S+ (.*)$')
  if name then
    grown[outcome] = (grown[outcome] or 0) - call('HSTRLEN', records, id)
    call('HDEL', records, id)
    if name ~= '-' then
      local group = group_of(name)
      group.count = group.count - 1
    end
  end
end

-- Drops the oldest beyond a number of records and of bytes, at most so many. Gives how many.
local function drop_surplus(outcome, ended, most_records, most_bytes, at_most)
  local dropped = 0
  local surplus = math.min(call('ZCARD', ended) - most_records, at_most)
  if surplus > 0 then
    local oldest = call('ZPOPMIN', ended, surplus)
    for i = 1, #oldest, 2 do drop_record(outcome, oldest[i]) end
    dropped = surplus
  end
  local bytes = tonumber(call('HGET', groups, '|' .. outcome)) or 0
  while dropped < at_most and bytes + (grown[outcome] or 0) > most_bytes do
    local oldest = call('ZPOPMIN', ended)[1]
    if not oldest then break end
    drop_record(outcome, oldest)
    dropped = dropped + 1
  end
  return dropped
end

-- At most 500 groups are kept: beyond them those that were not seen for the longest time go, until 400 are left.
local function write_groups()
  for name, group in pairs(touched) do
    if group.count > 0 and group.sample then
      call('HSET', groups, name, string.format('%d ', group.count) .. group.times .. ' ' .. group.sample)
    else
      call('HDEL', groups, name)
    end
  end
  for outcome, bytes in pairs(grown) do
    -- A figure never fails the call.
    if type(redis.pcall('HINCRBY', groups, '|' .. outcome, bytes)) ~= 'number' then
      call('HSET', groups, '|' .. outcome, math.max(bytes, 0))
    end
  end
  if call('HLEN', groups) > 504 then
    local all, last = call('HGETALL', groups), {}
    for i = 1, #all, 2 do
      local seen = string.match(all[i + 1], '^%d+ %d+ (%d+) ')
      if seen then last[#last + 1] = {tonumber(seen), all[i]} end
    end
    table.sort(last, function(one, other) return one[1] < other[1] end)
    for i = 1, #last - 400 do call('HDEL', groups, last[i][2]) end
  end
end
