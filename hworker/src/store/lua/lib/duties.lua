-- duties: what remains to be done for a job that has left its place: each duty a function of the job's name, its lease, the payload where
-- the duty needs it, and its own arguments.
-- Needs call, now, count, counted, jobs and lib/lists, lib/limits, lib/finish, scheduled, bell, broken, parked, token_key, time,
-- broken_limit, and kept, records, groups, ended and outcomes where there are records. Makes duties, arguments: how many each has, look_at,
-- needed, and where there are records drop, and write_records, which must be the last.
local duties = {}
local arguments = {retry = 2, slow = 3, route = 3, submit = 6, record = 7, halt = 0, keep = 3, note = 1, ['break'] = 1, park = 1, hold = 2,
  enqueue = 1, husk = 1}
local needed, drop, write_records = {}, nil, nil

-- What batches are still to be told, by the leases: see docs/wire-format.md.
local notes = jobs .. ':notes'

-- The list with a limit more.
local function with_limit(name, limit)
  local list, id = string.match(name, '^([^#]*)(.*)$')
  return list .. '+' .. limit .. id
end

-- Notes the keys that a duty needs and how to look at them: a key that somebody made another type of is an error before the first
-- write, and not half-way.
local function look_at(lease, duty, argument, list)
  local of_lease = read(list_of(lease))
  if of_lease and of_lease.by_id then needed[ids], needed[unique] = 'HLEN', 'HLEN' end
  if duty == 'slow' then
    local of = list_of(lease) ~= '' and read(list_of(lease))
    needed[control] = 'HLEN'
    if not (of and of.limits[1]) then look_at_list(with_limit(list_of(lease), list)) end
  end
  if duty == 'retry' and argument == '0' then
    look_at_list(list_of(lease))
  elseif duty == 'route' then
    look_at_list(list)
  elseif duty == 'submit' then
    look_at_list(argument)
    look_at_list('highest+!superseded')
    needed[scheduled], needed[unique] = 'ZCARD', 'HLEN'
  elseif duty == 'halt' then
    needed[overrides] = 'HLEN'
  elseif duty == 'enqueue' then
    look_at_list('')
  elseif duty == 'note' then
    needed[notes] = 'HLEN'
  elseif duty == 'retry' and not is_in_order(lease) then
    needed[scheduled], needed[bell] = 'ZCARD', 'LLEN'
  elseif duty == 'retry' or duty == 'slow' then
    look_at_list(list_of(lease))
    needed[timers], needed[bell] = 'ZCARD', 'LLEN'
  elseif duty == 'record' then
    needed[records], needed[groups], needed[ended[outcomes[argument]]] = 'HLEN', 'HLEN', 'ZCARD'
  elseif duty == 'park' then
    needed[parked], needed[token_key] = 'ZCARD', 'GET'
  elseif duty == 'hold' then
    needed[jobs .. ':stopped'], needed[jobs .. ':paused:' .. argument] = 'HLEN', 'LLEN'
    look_at_list(list_of(lease))
  elseif duty == 'break' or duty == 'husk' then
    needed[broken], needed[parked], needed[token_key] = 'HLEN', 'ZCARD', 'GET'
  end
end

function duties.retry(job, lease, _, delay, envelope)
  count(counted, 'retried', job, 1)
  delay = tonumber(delay)
  if is_in_order(lease) then
    hold_up(lease, delay, envelope)
    return
  elseif delay == 0 then
    push('LPUSH', list_of(lease), envelope)
    return
  end
  local first, due = call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2], now + delay
  call('ZADD', scheduled, string.format('%.0f', due), later(list_of(lease), envelope))
  -- include wake
end

-- The limit may be one of a service that asks for a pause.
function duties.slow(_, lease, _, delay, name, envelope)
  local list = list_of(lease)
  local of = list ~= '' and read(list)
  if of and of.limits[1] then
    hold_up(lease, tonumber(delay), envelope)
    return
  end
  -- include mark
  -- include types
  note_type(name)
  if delay ~= '0' then set_timer(name, now + delay, 'GT') end
  push('RPUSH', with_limit(list, name), envelope)
end

-- One that has no lease is known by itself.
function duties.note(_, lease, _, text) call('HSET', notes, lease or text, text) end

-- What its type wants to run when it has failed. A worker that meets it puts it where it belongs.
function duties.enqueue(_, _, _, envelope) push('LPUSH', '', envelope) end

-- It was met in the plain list, and belongs to another.
function duties.route(_, _, payload, how, list, at_once)
  -- include mark
  note_arguments(list, at_once)
  push(how, list, payload)
end

-- It was met in the plain list, and is to be known by its id. It gives way to the one that holds its key, if that does not give way to it: the
-- next worker cancels it.
function duties.submit(_, _, payload, name, held_by, conflict, lasts, latest, envelope)
  if envelope ~= '' then payload = envelope end
  -- include unique
  -- include mark
  local word = submit('LPUSH', name, nil, held_by, conflict, tonumber(lasts), tonumber(latest), payload)
  if word == 'exists' or word == 'refused' or word == 'moved' then push('LPUSH', 'highest+!superseded', payload) end
end

-- It failed for good, and those behind it are to wait until somebody resumes its key.
function duties.halt(_, lease)
  local of = read(list_of(lease))
  if of and of.in_order then call('HSET', overrides, 'paused:' .. of.limits[#of.limits], '0') end
end

-- Whoever waits for its result reads this. It needs no look: `SET` takes the place of a key of any type.
function duties.keep(_, _, _, id, ms, text) call('SET', kept .. id, text, 'PX', ms) end

-- Under a token above all that were given before, so no worker has looked past it.
function duties.park(_, lease, payload, envelope)
  if envelope == '' then envelope = payload end
  -- include token
  token = string.format('%.0f', token + 1)
  call('SET', token_key, token .. (mark or ''))
  local name = lease and list_of(lease) or ''
  local of = read(name)
  call('ZADD', parked, token, of and of.id and later(name, envelope) or envelope)
  if of and of.id then stand(of, 'p', envelope) end
  count(counted, 'parked', nil, 1)
end

-- Its batch is paused. Where that was resumed meanwhile, it is the next to run.
function duties.hold(_, lease, payload, group, envelope)
  if envelope == '' then envelope = payload end
  local name = list_of(lease)
  if call('HGET', jobs .. ':stopped', group) ~= 'paused' then
    push('RPUSH', name, envelope)
    return
  end
  call('RPUSH', jobs .. ':paused:' .. group, later(name, envelope))
end

-- Nothing is deleted to make room.
duties['break'] = function(_, lease, payload, reason)
  if broken_limit > 0 then
    local old = call('HGET', broken, payload)
    if not old and call('HLEN', broken) >= broken_limit then
      duties.park(nil, lease, payload, '')
      return
    end
    -- include quarantine
  end
  if lease then finish(list_of(lease), 'broken') end
  count(counted, 'broken', nil, 1)
end

-- What an edit left in place of a job. A payload that looks like one is broken as any other: there are no more of them than are counted.
function duties.husk(_, _, _, reason)
  local left = redis.pcall('HINCRBY', stat, 'husks', -1)
  if type(left) == 'number' and left >= 0 then return end
  if type(left) == 'number' then redis.pcall('HINCRBY', stat, 'husks', 1) end
  duties['break'](nil, nil, '-', reason)
end

if ended[1] then
  -- include records
  drop = drop_record

  -- What was added to each outcome, and its bounds.
  local added = {}
  function duties.record(job, lease, _, outcome, id, group, most_records, most_bytes, text, sample)
    count(counted, outcome == 'done' and 'processed' or outcome, job, 1)
    if lease then finish(list_of(lease), outcome) end
    local to = added[outcome]
    if not to then
      to = {count = 0, most_records = tonumber(most_records), most_bytes = tonumber(most_bytes)}
      added[outcome] = to
    end
    if to.most_records > 0 then
      to.count = to.count + 1
      add_record(outcome, ended[outcomes[outcome]], lease, id, job, group, text, sample)
    end
  end

  write_records = function()
    for outcome, to in pairs(added) do
      if to.count > 0 then
        local dropped = drop_surplus(outcome, ended[outcomes[outcome]], to.most_records, to.most_bytes, to.count + 100)
        -- That the oldest finished jobs make room is what they are kept for.
        if dropped > 0 and outcome ~= 'done' then count(counted, 'dropped', nil, dropped) end
      end
    end
    write_groups()
  end
end
