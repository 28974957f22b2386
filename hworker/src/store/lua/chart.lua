-- chart: add what a worker did to the minute, the ten minutes and the hour in which it did that.
--
-- KEYS[1] chart   PREFIX of a HASH each `:<minutes>:<begin in s>`: job type -> counts and times
-- KEYS[2] record  HASH   the worker's record
-- ARGV[1] number  of this portion; each is taken in once
-- ARGV[2] ago     ms since it was taken
-- ARGV[3] gauges  of the queue, or ''
-- ARGV[4] then job type, what its jobs did, ...: counts and sums in ms, a `|`, `<part>:<count>` of a histogram, and the same of another
--
-- Returns 'ok'.
-- Invariant: only keys of this queue's charts change, and each of them expires.
local call = redis.call
local chart, record = KEYS[1], KEYS[2]
local number, ago, gauges = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

-- Beyond so many types the others are one.
local most_types = 200
-- Minutes of a point, and seconds that it is kept: an hour, a day, and thirty days, and one point more.
local kept = {{1, 3720}, {10, 87600}, {60, 2595600}}

-- include clock

local function numbers(text)
  local all = {}
  for n in string.gmatch(text, '%d+') do all[#all + 1] = tonumber(n) end
  return all
end

local function add_histogram(before, more)
  local counts, parts = {}, {}
  for _, text in ipairs({before, more}) do
    for part, n in string.gmatch(text, '(%d+):(%d+)') do
      part = tonumber(part)
      if not counts[part] then parts[#parts + 1] = part end
      counts[part] = (counts[part] or 0) + tonumber(n)
    end
  end
  table.sort(parts)
  for i, part in ipairs(parts) do parts[i] = string.format('%d:%.0f', part, counts[part]) end
  return table.concat(parts, ' ')
end

-- What is no sum begins anew.
local function sum(before, more)
  local counts, run, wait = string.match(before or '', '^([%d ]+)|([%d: ]*)|([%d: ]*)$')
  if not counts then return more end
  local new, new_run, new_wait = string.match(more, '^([%d ]+)|([%d: ]*)|([%d: ]*)$')
  local all = numbers(counts)
  for i, n in ipairs(numbers(new)) do all[i] = string.format('%.0f', math.min((all[i] or 0) + n, 2 ^ 53)) end
  return table.concat(all, ' ') .. '|' .. add_histogram(run, new_run) .. '|' .. add_histogram(wait, new_wait)
end

local taken = tonumber(call('HGET', record, 'charts')) or 0
local is_new = number > taken
if is_new then call('HSET', record, 'charts', ARGV[1]) end
for _, level in ipairs(kept) do
  local minutes, seconds = level[1], level[2]
  local width = minutes * 60
  local key = chart .. ':' .. minutes .. ':' .. string.format('%.0f', math.floor((now - ago) / 1000 / width) * width)
  local types = redis.pcall('HLEN', key)
  -- Somebody may have made it another type.
  local is_hash = type(types) == 'number'
  if gauges ~= '' and is_hash then call('HSET', key, '+gauges', gauges) end
  for i = 4, is_new and is_hash and #ARGV or 0, 2 do
    local name = ARGV[i]
    local before = call('HGET', key, name)
    if not before and types >= most_types then
      name = '+other'
      before = call('HGET', key, name)
    end
    if not before then types = types + 1 end
    call('HSET', key, name, sum(before, ARGV[i + 1]))
  end
  call('EXPIRE', key, seconds)
end
return 'ok'
