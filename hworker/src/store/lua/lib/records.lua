-- records: write and drop the records of ended jobs, each with its place in a sorted set, its bytes and its group.
-- Needs call, now, records, groups. Makes add_record, drop_record, drop_surplus, and write_groups, which must be the last.
--
-- In `groups` stand <group> -> '<records> <first> <last> <sample>', times in ms, and '|<outcome>' -> the bytes of its records. Groups are
-- read and written once in a script, and records removed, however many there are: a call costs the server as much as ten fields.
local touched, grown, gone = {}, {}, {}
-- To spell a number takes long.
local now_text = string.format('%.0f', now)

local function add_to_group(name, n, sample)
  if name == '-' then return end
  local group = touched[name] or {n = 0}
  group.n, group.sample = group.n + n, sample or group.sample
  touched[name] = group
end

local function add_record(outcome, ended, lease, id, job, name, text, sample)
  -- A second record of one id, as of a job that was enqueued twice.
  if call('HSETNX', records, id, text) == 0 then
    id = id .. '#' .. (lease or now_text)
    call('HSET', records, id, text)
  end
  call('ZADD', ended, now_text, name .. ' ' .. job .. ' ' .. id)
  grown[outcome] = (grown[outcome] or 0) + #text
  add_to_group(name, 1, sample)
end

-- `member` has left the sorted set.
local function drop_record(outcome, member)
  local name, id = string.match(member, '^(%S+) %S+ (.*)$')
  if name then
    grown[outcome] = (grown[outcome] or 0) - call('HSTRLEN', records, id)
    gone[#gone + 1] = id
    add_to_group(name, -1)
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

-- At most 500 groups are kept. For each one more the one that was not seen for the longest time goes, of three that are picked at random: to
-- look at all of them would cost as much as the rest of a failure.
local function write_groups()
  if gone[1] then call('HDEL', records, unpack(gone)) end
  local names, left, written = {}, {}, {}
  for name in pairs(touched) do names[#names + 1] = name end
  local known = names[1] and call('HMGET', groups, unpack(names))
  for i, name in ipairs(names) do
    local n, first, last, at = string.match(known[i] or '', '^(%d+) (%d+) (%d+) ()')
    local sample = touched[name].sample
    if sample then first, last = first or now_text, now_text end
    n, sample = (n or 0) + touched[name].n, sample or at and string.sub(known[i], at)
    if n > 0 and sample then
      written[#written + 1] = name
      written[#written + 1] = string.format('%d %s %s ', n, first, last) .. sample
    else
      left[#left + 1] = name
    end
  end
  if written[1] then call('HSET', groups, unpack(written)) end
  if left[1] then call('HDEL', groups, unpack(left)) end
  for outcome, bytes in pairs(grown) do
    -- A figure never fails the call.
    if type(redis.pcall('HINCRBY', groups, '|' .. outcome, bytes)) ~= 'number' then
      call('HSET', groups, '|' .. outcome, math.max(bytes, 0))
    end
  end
  local surplus = math.min(call('HLEN', groups) - 500, 250)
  if surplus > 0 then
    local some, oldest = call('HRANDFIELD', groups, 3 * surplus, 'WITHVALUES'), {}
    for i = 1, #some, 6 do
      local name, seen
      for at = i, math.min(i + 4, #some - 1), 2 do
        local last = tonumber(string.match(some[at + 1], '^%d+ %d+ (%d+) '))
        if last and (not seen or last < seen) then name, seen = some[at], last end
      end
      oldest[#oldest + 1] = name
    end
    if oldest[1] then call('HDEL', groups, unpack(oldest)) end
  end
end
