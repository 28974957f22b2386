-- keys: take from the lists of a group, whose keys have their turns.
-- Needs call, jobs, lists and limits, bytes, take. Makes take_from_keys.
-- Takes from the keys of a group, each in its turn.
local function take_from_keys(from, most)
  local took_in_all, looked, is_over = 0, 0, false
  while took_in_all < most and looked < 200 and not is_over do
    local open_keys = redis.pcall('ZRANGEBYSCORE', from.keys, '-inf', '(1e15', 'WITHSCORES', 'LIMIT', 0,
      math.min(most - took_in_all, 200 - looked))
    local each = math.max(1, math.floor((most - took_in_all) / math.max(#open_keys / 2, 1)))
    is_over = true
    for i = 1, #open_keys, 2 do
      local key, turn = open_keys[i], tonumber(open_keys[i + 1])
      local list, length = from.list .. key, redis.pcall('LLEN', jobs .. ':' .. from.list .. key)
      local of = read(list)
      looked = looked + 1
      if type(length) ~= 'number' or length == 0 or not of then
        call('ZREM', from.keys, key)
        is_over = false
      elseif took_in_all < most and bytes > 0 then
        local limit = of.limits[#of.limits]
        local leased = take(list, math.min(each, most - took_in_all, room_of(limit).n))
        took_in_all = took_in_all + leased
        if leased > 0 and call('LLEN', jobs .. ':' .. list) == 0 then
          call('ZREM', from.keys, key)
          is_over = false
        else
          local is_shut = room_of(limit).n <= 0
          if leased > 0 or is_shut then
            call('ZADD', from.keys, string.format('%.0f', turn + leased + (is_shut and shut or 0)), key)
            is_over = false
          end
        end
      end
    end
  end
  return took_in_all
end
