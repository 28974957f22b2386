-- serve: take from the lists of a level.
-- Needs slots, token, by_level, count, take, take_from_keys. Makes serve.
local function take_from(from, most)
  local may = count(from)
  if from.keys then
    most = may > 0 and math.min(most, from.room) or 0
  else
    most = math.min(most, may)
  end
  if most <= 0 then return 0 end
  local leased = from.keys and take_from_keys(from, most) or not from.keys and take(from.list, most)
  if from.of and from.of.limits[1] then slots = slots - leased end
  return leased
end

-- Each list of the level has its share, in an order that changes.
local function serve(level, most)
  local from = by_level[level]
  local first = token % #from
  for _, is_last in ipairs({false, true}) do
    for i = 0, #from - 1 do
      if most > 0 then
        most = most - take_from(from[(first + i) % #from + 1], is_last and most or math.ceil(most / (#from - i)))
      end
    end
    if #from == 1 then break end
  end
  return most
end
