-- place: puts jobs into lists of a queue, each with its terms.
-- Needs call, lib/lists, lib/full, needs_limits: whether any has terms, and what lib/limits needs but for the clock. Makes place.
-- Where as many run as may, what becomes of those that wait; gives the list for the new one.
local make_way
if needs_limits then
  -- include clock
  -- include limits
  function make_way(list, terms)
    local at_once, when = string.match(terms, '^(%S+) %S+ (%S+)')
    local limit = read(list).limits[#read(list).limits]
    if at_once ~= '-' then
      call('HSET', overrides, 'args:' .. limit, at_once)
      rooms[limit] = nil
    end
    if when == 'wait' or room_of(limit).n > 0 then return list end
    local superseded = 'highest+!superseded'
    for _, same in ipairs(alike(list)) do
      if when == 'oldest' and call('EXISTS', jobs .. ':' .. same) == 1 then return superseded end
      for _ = 1, when == 'newest' and not read(same).by_id and 1000 or 0 do
        local envelope = call('RPOP', jobs .. ':' .. same)
        if not envelope then break end
        push('LPUSH', superseded, envelope)
      end
    end
    return list
  end
end

local function place(how, list, terms, envelope)
  push(how, terms ~= '' and make_way(list, terms) or list, envelope)
end
