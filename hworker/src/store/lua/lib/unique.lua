-- unique: take in a job that is known by its id, unless another holds its key.
-- Needs call, now, jobs, scheduled, bell, stat, lib/lists, lib/timers and lib/finish. Makes submit.

-- Where a new job stands: in its list, or among the scheduled ones.
local function place(how, name, held_by, due, envelope)
  local of = read(name)
  call('HSET', ids, of.id, 'w' .. of.list .. '\n' .. held_by .. '\n')
  if due and due > now then
    local first = call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]
    call('ZADD', scheduled, string.format('%.0f', due), later(name, envelope))
    -- include wake
  else
    push(how, name, envelope)
  end
end

-- Its id stands in a list, and calls for nothing any more.
local function leave_husk() redis.pcall('HINCRBY', stat, 'husks', 1) end

-- A job leaves its place for another, which has its id in the list where that is the same; gives under which it stands there, and when one
-- that is scheduled is due.
local function give_way(id, place_id, to)
  local state, list = standing(id)
  if state == 's' then
    local member = ':' .. list .. '#' .. id .. '\n'
    local due = call('ZSCORE', scheduled, member)
    call('ZREM', scheduled, member)
    call('HDEL', ids, id)
    return nil, tonumber(due)
  end
  local is_placed = place_id ~= '' and call('HGET', ids, place_id) == '>' .. id
  call('HDEL', ids, id)
  if to and list == to.list then
    local at = is_placed and place_id or id
    call('HSET', ids, at, '>' .. to.id)
    return at
  end
  leave_husk()
end

-- A job that keeps its place is due at another time.
local function move(id, due)
  local state, list, _, envelope = standing(id)
  local name = list .. '#' .. id
  if state == 's' then
    call('ZREM', scheduled, ':' .. name .. '\n')
  elseif due and due > now then
    leave_husk()
  else
    return
  end
  if due and due > now then
    local first = call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]
    call('ZADD', scheduled, string.format('%.0f', due), later(name, envelope))
    -- include wake
  else
    push('LPUSH', name, envelope)
  end
end

local function lock(key, id, at, open_at, latest, follower)
  call('HSET', unique, key, id .. '#' .. at .. '#' .. open_at .. '#' .. latest .. '#' .. follower)
end

-- `held_by`: what its key holds it by, 's'tart, 'f'inish or a 'p'eriod, and the key; '' where it has none. `conflict`: what is done if another
-- holds the key: 'keep', 'refuse', 'follow', 'replace', 'reschedule', 'replace_and_reschedule' or 'cancel'. `lasts`: of a period, in ms. `latest`: how
-- long one may be put off, in ms. Gives what became of it, and the id of the other and how that stands, '' where it has ended.
local function submit(how, name, due, held_by, conflict, lasts, latest, envelope)
  local of = read(name)
  local id, before = of.id, call('HGET', ids, of.id)
  local stands = standing(id)
  if stands then return 'exists', id, stands end
  if before then
    -- It stands in the list for another, which has to stand there by itself.
    local other = string.sub(before, 2)
    local state, list = standing(other)
    call('HDEL', ids, id)
    if state == 'w' then call('LPUSH', jobs .. ':' .. list, other) end
  end
  if held_by == '' then
    place(how, name, '', due, envelope)
    return 'new', '', ''
  end
  local by, key = string.sub(held_by, 1, 1), string.sub(held_by, 2)
  local holder, at, open_at, put_off, follower, state, is_free
  for _ = 1, 2 do
    holder, at, open_at, put_off, follower = string.match(call('HGET', unique, key) or '', '^([^#]*)#([^#]*)#(%d*)#(%d*)#(.*)$')
    state = holder and standing(holder)
    -- Its own key it has, within its period too.
    is_free = not holder or holder == id or open_at == '' and not state or open_at ~= '' and tonumber(open_at) <= now
    if not (is_free and holder and standing(follower) == 'f') then break end
    -- The job that follows comes before this one.
    hand_on(key, follower)
  end
  if is_free and holder == id and open_at ~= '' and tonumber(open_at) > now then
    place(how, name, held_by, due, envelope)
    return 'new', '', ''
  elseif is_free then
    open_at = by == 'p' and string.format('%.0f', now + lasts) or ''
    if by == 'p' then set_timer('=' .. key, now + lasts, 'CH') end
    lock(key, id, '', open_at, latest and string.format('%.0f', now + latest) or '', '')
    place(how, name, held_by, due, envelope)
    return 'new', '', ''
  end
  -- One that runs is cancelled by the caller.
  if conflict == 'cancel' then conflict = state == 'w' and 'replace' or state == 's' and 'replace_and_reschedule' or 'follow' end
  if put_off ~= '' and due then due = math.min(due, tonumber(put_off)) end
  local replaces = string.find(conflict, 'replace', 1, true)
  -- One that waits already keeps its place: it is due no earlier at the end of its list.
  local moves = string.find(conflict, 'reschedule', 1, true) and not (replaces and state == 'w' and not (due and due > now))
  local word = 'exists'
  if conflict == 'refuse' then
    word = 'refused'
  elseif conflict == 'follow' then
    if follower ~= '' then call('HDEL', ids, follower) end
    call('HSET', ids, id, 'f' .. of.list .. '\n' .. held_by .. '\n' .. (due and string.format('%.0f', due) or '') .. '\n' .. envelope)
    lock(key, holder, at, open_at, put_off, id)
    word = 'follows'
  elseif (state == 'w' or state == 's') and replaces then
    local stays, was_due = give_way(holder, at, not moves and of or nil)
    if stays then
      call('HSET', ids, id, 'w' .. of.list .. '\n' .. held_by .. '\n' .. envelope)
    else
      place(how, name, held_by, moves and due or not moves and was_due or nil, envelope)
    end
    lock(key, id, stays or '', open_at, put_off, follower)
    word = 'replaced'
  elseif (state == 'w' or state == 's') and moves then
    move(holder, due)
    word = 'moved'
  end
  return word, holder, state or ''
end
