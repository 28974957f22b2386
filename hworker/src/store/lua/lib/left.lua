-- left: what waits still, whoever has slots for it, and whether somebody else is to look.
-- Needs call, jobs, lists, control, since, now, by_level, count, is_passed_over; sets waiting and slots. Makes of_slots, needs_ticket,
-- others_need_one.
-- What is left, whoever has slots for it.
waiting, slots = 0, math.huge
local of_slots, needs_ticket, others_need_one = 0, false, false
for level = 1, 5 do
  local waits = 0
  for _, from in ipairs(by_level[level]) do
    local left = count(from)
    waits = waits + left
    if from.of and from.of.limits[1] then of_slots = of_slots + left else waiting = waiting + left end
    if from.list ~= '' then
      needs_ticket = needs_ticket or left > 0
      others_need_one = others_need_one or left == 0 and string.find(from.list, '@', 1, true) and count(from, true) > 0
      if call('EXISTS', from.keys or jobs .. ':' .. from.list) == 0 then call('ZREM', lists, from.list) end
    end
  end
  -- When a level was first passed over, which is a figure: where it cannot be kept, none is passed over for long.
  if since.err then
    -- The key is of another type.
  elseif waits == 0 or not is_passed_over[level] then
    if since[level] then call('HDEL', control, 'since:' .. level) end
  elseif not since[level] then
    call('HSET', control, 'since:' .. level, string.format('%.0f', now))
  end
end
