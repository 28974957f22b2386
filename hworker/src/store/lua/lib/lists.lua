-- lists: the lists of a queue beside its plain one. A job of another priority than the normal one waits in `<jobs>:<list>`; a lease
-- `<token>.<list>` tells that its job was taken from there.
-- Needs call, jobs. Makes lists, list_of, look_at_list, push, later, and leave_ticket.
--
-- `lists` says which of them have jobs, in the order in which they are served. Idle workers wait on the plain list alone: while that is empty, a
-- ticket (`!`) in it has one of them look.
local lists = jobs .. ':lists'
local levels, noted = {highest = 1, high = 2, normal = 3, low = 4, lowest = 5}, {}

-- '' is the plain one.
local function list_of(lease) return string.match(lease, '^%d+%.(%l+)$') or '' end

-- Before anything is taken: a key that somebody made another type of is an error there, and not half-way.
local function look_at_list(list)
  call('LLEN', (list == '' and jobs or jobs .. ':' .. list))
  if list ~= '' then call('ZCARD', lists) end
end

local function leave_ticket()
  if call('LLEN', jobs) == 0 then call('LPUSH', jobs, '!') end
end

-- What stands for a job among the scheduled ones.
local function later(list, envelope) return list == '' and envelope or ':' .. list .. '\n' .. envelope end

-- `how`: RPUSH, so that it is next, or LPUSH.
local function push(how, list, envelope)
  if list == '' then
    call(how, jobs, envelope)
    return
  end
  call(how, jobs .. ':' .. list, envelope)
  if not noted[list] then
    noted[list] = true
    call('ZADD', lists, 'NX', (levels[list] or 5) * 1e15, list)
    leave_ticket()
  end
end
