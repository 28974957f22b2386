-- staged: jobs that come all or none, see stage.lua and commit.lua.
-- Needs call, now, jobs, scheduled, bell, bytes, lib/lists, lib/timers and lib/due. Makes is_committed and move_staged.
--
-- `<jobs>:staged:<bulk>` has them in their order, each as it stands among the scheduled jobs; in front of one that is delayed stands when it is due
-- and a line feed. A `!` behind the last of them says that they come. Until all are moved `%<bulk>` is among the timers.
local function is_committed(bulk)
  return call('LPOS', jobs .. ':staged:' .. bulk, '!', 'RANK', -1, 'MAXLEN', 1) and true
end

-- Moves so many at most, as far as there are bytes left, and gives how many it has moved, and how many are left. Somebody goes on `later`, in ms.
local function move_staged(bulk, most, later)
  local staged = jobs .. ':staged:' .. bulk
  local moved, left, at_once, largest = 0, call('LLEN', staged) - 1, 1, 1
  while moved < most and left > 0 and at_once > 0 do
    local some, ready, delayed = call('LRANGE', staged, 0, math.min(most - moved, left, at_once) - 1), {}, {}
    for _, element in ipairs(some) do
      local base, ms, from = string.match(element, '^(%l%l) (%d+)\n()')
      if base then
        delayed[#delayed + 1] = string.format('%.0f', tonumber(ms) + (base == 'in' and now or 0))
        delayed[#delayed + 1] = string.sub(element, from)
      else
        ready[#ready + 1] = element
      end
      bytes, largest = bytes - #element, math.max(largest, #element)
    end
    look_at_due(ready)
    local first = call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]
    call('LTRIM', staged, #some, -1)
    put_due(ready)
    if delayed[1] then
      local due = math.huge
      for i = 1, #delayed, 2 do due = math.min(due, tonumber(delayed[i])) end
      call('ZADD', scheduled, unpack(delayed))
      -- include wake
    end
    moved, left = moved + #some, left - #some
    at_once = math.min(at_once * 2, 32, math.floor(bytes / largest))
  end
  if left > 0 then
    set_timer('%' .. bulk, now + later, 'CH')
  else
    call('ZREM', timers, '%' .. bulk)
    -- Who repeats the commit, as its answer was lost, finds that they came.
    call('EXPIRE', staged, 3600)
  end
  return moved, left
end
