-- levels: the lists that have jobs, by the level of their priority, and how many of their jobs may be taken.
-- Needs call, jobs, lists and limits, slots. Makes count and by_level.
-- How many jobs of these limits may start; of those with a key the others.
local function room_for(of, is_for_others)
  local room = of.limits[1] and slots or math.huge
  for i, limit in ipairs(of.limits) do
    local is_skipped = of.key and i == #of.limits or is_for_others and string.sub(limit, -1) == '@'
    if not is_skipped then room = math.min(room, room_of(limit).n) end
  end
  return room
end

-- How many jobs of a list may be taken; of a group, how many of its keys have such.
local function count(from, is_for_others)
  local room = from.list ~= '' and room_for(from.of, is_for_others) or math.huge
  if not is_for_others then from.room = room end
  if room <= 0 then return 0 end
  local waits = from.keys and redis.pcall('ZCOUNT', from.keys, '-inf', '(1e15')
    or redis.pcall('LLEN', (from.list == '' and jobs or jobs .. ':' .. from.list))
  return type(waits) == 'number' and math.min(waits, from.keys and waits or room) or 0
end

-- The lists and groups that have jobs, by their level. One that has none, or that somebody made another type of, is no list.
local by_level = {{}, {}, {{list = ''}}, {}, {}}
local found = redis.pcall('ZRANGE', lists, 0, 199)
for i = 1, #found do
  local list, of = found[i], read(found[i])
  local from = {list = list, of = of, keys = of and of.key and jobs .. ':keys:' .. list}
  local size = of and (from.keys and redis.pcall('ZCARD', from.keys) or redis.pcall('LLEN', jobs .. ':' .. list))
  if type(size) == 'number' and size > 0 then
    local level = by_level[of.level]
    level[#level + 1] = from
  else
    call('ZREM', lists, list)
  end
end
