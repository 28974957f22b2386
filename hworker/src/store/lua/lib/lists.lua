-- lists: the lists of a queue beside its plain one. Jobs of another priority than the normal one, and those that have limits, wait in
-- `<jobs>:<list>`; a lease `<token>.<list>` tells that its job was taken from there, and which limits it holds.
-- Needs call, jobs. Makes lists, held, what lib/ids makes, stand, read, list_of, look_at_list, is_ticket, leave_ticket, open_gate, enter, push,
-- later, note_arguments, front, open, free and tell_of_room.
--
-- A list is named by its priority, nothing for the normal one, and its limits, each behind a `+`. The last one may have a key:
-- `high+db+mail=acme`, with `~` for `=` where the jobs of a key run in order. All up to there, `high+db+mail=`, is the group of the list.
-- `lists` says which groups, and which lists without a key, have jobs; `<jobs>:keys:<group>` says which of its keys have, by their turn:
-- with 10^15 more while the limit is used up. Idle workers wait on the plain list alone: while that is empty, a ticket (`!`) in it has one
-- of them look. `held` has a member `<limit> <token>` for each lease and limit.
--
-- A list with a `*` behind its priority has ids instead of envelopes, see lib/ids.lua. `<list>#<id>` names one job of it: so do its lease, and
-- what stands for it among the scheduled and the parked jobs.
-- include ids
local lists, held = jobs .. ':lists', jobs .. ':held'
local levels, noted, parsed = {highest = 1, high = 2, normal = 3, low = 4, lowest = 5}, {}, {}
local shut, group_names = 1e15, nil

-- A job that is known by its id stands somewhere else. `key`: another than it had.
local function stand(of, state, envelope, key)
  if not key then key = select(3, standing(of.id)) end
  call('HSET', ids, of.id, state .. of.list .. '\n' .. (key or '') .. '\n' .. envelope)
end

-- What a name says of its list, and of the job in it; nil where it is none. A limit whose name ends with `@` is one for each worker.
local function read(name)
  local of = parsed[name]
  if of == nil then
    local list, id = string.match(name, '^([^#]*)#?(.*)$')
    local level, star, limits = string.match(list, '^(%l*)(%*?)(.*)$')
    of = {level = levels[level == '' and 'normal' or level], limits = {}, list = list, group = list, by_id = star == '*'}
    of.id = id ~= '' and id or nil
    local is_sound = of.level and level ~= 'normal' and (limits == '' or string.find(limits, '^%+[^%c ]+$')) and (of.by_id or not of.id)
    for limit in string.gmatch(limits, '%+([^+]*)') do
      local before, mark, key = string.match(limit, '^([^=~]*)([=~])(.*)$')
      is_sound = is_sound and limit ~= '' and not of.key
      if before then
        of.key, of.by_key, of.in_order = key, before .. '=', mark == '~'
        of.group = string.sub(list, 1, #list - #key)
        limit = of.by_key .. key
      end
      of.limits[#of.limits + 1] = limit
    end
    of = is_sound and of or false
    parsed[name] = of
  end
  return of or nil
end

-- '' is the plain one; nil where the lease tells nothing.
local function named(lease)
  local list = string.match(lease, '^%d+%.(.*)$')
  return list and read(list) and list
end
local function list_of(lease) return named(lease) or '' end

-- Before anything is taken: a key that somebody made another type of is an error there, and not half-way.
local function look_at_list(name)
  if name == '' then
    call('LLEN', jobs)
    return
  end
  local of = read(name)
  call('LLEN', jobs .. ':' .. (of and of.list or name))
  call('ZCARD', lists)
  if of and of.limits[1] then call('ZCARD', held) end
  if of and of.key then call('ZCARD', jobs .. ':keys:' .. of.group) end
  if of and of.by_id then call('HLEN', ids) end
end

-- `!`, or with how many workers looked in vain because of limits of their own.
local function is_ticket(envelope) return #envelope <= 2 and string.byte(envelope) == 33 end

local function leave_ticket(ticket)
  if call('LLEN', jobs) == 0 then call('LPUSH', jobs, ticket or '!') end
end

-- For one of those that wait until the queue may give jobs again.
local function open_gate()
  if call('LLEN', jobs .. ':gate') == 0 then call('LPUSH', jobs .. ':gate', '!') end
  call('PEXPIRE', jobs .. ':gate', 60000)
end

-- What stands for a job among the scheduled ones; with how many may run at once, where its arguments, or others of its key, say so.
local function later(name, envelope, at_once)
  if name == '' then return envelope end
  local of = read(name)
  if of.id then
    stand(of, 's', envelope)
    return ':' .. name .. '\n'
  end
  at_once = at_once ~= '' and at_once or of.key and redis.pcall('HGET', jobs .. ':overrides', 'args:' .. of.limits[#of.limits])
  return ':' .. (type(at_once) == 'string' and at_once or '') .. name .. '\n' .. envelope
end

-- How many jobs of its key may run at once, as the arguments of this one say ('' if they do not), where none said so before.
local function note_arguments(list, at_once)
  local of = at_once ~= '' and read(list)
  local field = of and of.key and 'args:' .. of.limits[#of.limits]
  if field and redis.pcall('HEXISTS', jobs .. ':overrides', field) == 0 then call('HSET', jobs .. ':overrides', field, at_once) end
end

-- Whose turn is next in a group.
local function front(keys)
  local first = call('ZRANGE', keys, 0, 0, 'WITHSCORES')[2]
  return (tonumber(first) or 0) % shut
end

-- Has workers look into a list that has jobs.
local function enter(list)
  local of, is_open = read(list), true
  if of.key then
    local keys = jobs .. ':keys:' .. of.group
    local turn = call('ZSCORE', keys, of.key)
    if turn then
      is_open = tonumber(turn) < shut
    else
      -- Behind those whose turn it is, or a key could wait for ever while others come that stand before it by their names.
      call('ZADD', keys, string.format('%.0f', front(keys) + 1), of.key)
    end
  end
  call('ZADD', lists, 'NX', of.level * 1e15, of.group)
  -- While it is shut, a look would be in vain: who makes room for it opens it.
  if is_open then leave_ticket() end
end

-- `how`: RPUSH, so that it is next, or LPUSH.
local function push(how, name, envelope)
  if name == '' then
    call(how, jobs, envelope)
    return
  end
  local of = read(name)
  if of.id then
    stand(of, 'w', envelope)
    envelope = of.id
  end
  call(how, jobs .. ':' .. of.list, envelope)
  if noted[of.list] then return end
  noted[of.list] = true
  enter(of.list)
end

-- The jobs of a key may be taken again, in all groups that have its limit.
local function open_key(by_key, key)
  group_names = group_names or redis.pcall('ZRANGE', lists, 0, 199)
  for _, group in ipairs(group_names) do
    local of, keys = read(group), jobs .. ':keys:' .. group
    local turn = of and of.by_key == by_key and redis.pcall('ZSCORE', keys, key)
    turn = type(turn) == 'string' and tonumber(turn)
    if turn and turn >= shut then
      call('ZADD', keys, string.format('%.0f', math.max(turn - shut, front(keys))), key)
    end
  end
end

local function open(limit)
  local by_key, key = string.match(limit, '^([^=]*=)(.*)$')
  if by_key then open_key(by_key, key) end
end

-- Its job runs no more: what it held is free. `owner` is the key under which its worker holds leases.
local has_freed, is_any_held, freed_keys = false, nil, {}
local function free(lease, owner)
  local token, list = string.match(lease, '^(%d+)%.(.*)$')
  -- The copies of a job for each worker hold the limit of the queue.
  local of = token and (read(list) or string.sub(list, 1, 1) == '@' and {limits = {}})
  if not of then return end
  if is_any_held == nil then
    -- Where somebody made another type of it, nothing is held.
    local size = redis.pcall('ZCARD', held)
    is_any_held = type(size) == 'number' and size > 0
  end
  if not is_any_held then return end
  local members = {'* ' .. token}
  for i, limit in ipairs(of.limits) do
    members[i + 1] = limit .. (string.sub(limit, -1) == '@' and owner or '') .. ' ' .. token
  end
  if call('ZREM', held, unpack(members)) == 0 then return end
  has_freed = true
  if not of.key then return end
  open_key(of.by_key, of.key)
  freed_keys[of.limits[#of.limits]] = of
end

-- How many jobs of a key may run at once, as the arguments of one said, is kept while one of the key waits or runs, in whatever list.
local function forget_arguments(limit, of)
  if redis.pcall('HEXISTS', jobs .. ':overrides', 'args:' .. limit) ~= 1
    or redis.pcall('ZLEXCOUNT', held, '[' .. limit .. ' ', '(' .. limit .. '!') ~= 0 then return end
  for _, group in ipairs(redis.pcall('ZRANGE', lists, 0, 199)) do
    local other = read(group)
    if other and other.by_key == of.by_key and redis.pcall('ZSCORE', jobs .. ':keys:' .. group, of.key) then return end
  end
  call('HDEL', jobs .. ':overrides', 'args:' .. limit)
end

-- After `free`, and after what became of the job: somebody may take what waits for it.
local function tell_of_room()
  if not has_freed then return end
  for limit, of in pairs(freed_keys) do forget_arguments(limit, of) end
  if call('ZCARD', lists) > 0 then leave_ticket() end
  local of_queue = redis.pcall('HMGET', jobs .. ':control', 'set:*', 'set_rate:*')
  if of_queue[1] or of_queue[2] then open_gate() end
end
